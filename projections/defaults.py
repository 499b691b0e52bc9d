"""By which versions a prompt is made where the caller names none."""

DEFAULT_ASSEMBLER = "turn-memory@6"
DEFAULT_MODEL = "claude-sonnet-4-6"
DEFAULT_MODELS = {
    "anthropic": DEFAULT_MODEL,
    "openai-chat": "gpt-5.4",
    "openai-responses": "gpt-5.4",
    "gemini": "gemini-3-flash-preview",
    "bedrock": "bedrock-claude",
}
"""Format to the model that a prompt is made for where the one that was recorded is not offered in it."""
