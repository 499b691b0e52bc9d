"""By which versions a prompt is made where the caller names none."""

DEFAULT_ASSEMBLER = "turn-memory@6"
DEFAULT_MODEL = "claude-sonnet-4-6"
