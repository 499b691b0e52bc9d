"""Views: pure, versioned functions from events to what a model sees, and the proof that they say the same again."""

if not __name__.startswith("convlog."):
    msg = "import convlog.projections, not projections: the bare name would make a second copy of every class"
    raise ImportError(msg)
