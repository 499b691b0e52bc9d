"""Cases: steps carried out through the public API, and what must hold after the last."""
