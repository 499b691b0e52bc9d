"""Foreign lines to events: one file a format, behind one small protocol."""
