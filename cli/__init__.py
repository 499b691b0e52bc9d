"""The shell face: arguments in, text out; one command a file."""

if not __name__.startswith("convlog."):
    msg = "import convlog.cli, not cli: the bare name would make a second copy of every class"
    raise ImportError(msg)
