"""Facts: events, the tree they form, and the stores that keep them. Knows nothing of prompts or providers."""

if not __name__.startswith("convlog."):
    msg = "import convlog.eventstore, not eventstore: the bare name would make a second copy of every class"
    raise ImportError(msg)
