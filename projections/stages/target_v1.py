"""What an encoder is told besides the pieces: the target, the options of this request, and attachments by hash.

The target is read from a profile's own bytes, so that a prompt derived later reads the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class ImageFacts(msgspec.Struct, frozen=True):
    """Which images the model takes; None for a limit that is not known."""

    media_types: tuple[str, ...] = ("image/jpeg", "image/png", "image/gif", "image/webp")
    count_max: int | None = None
    base64_bytes_max: int | None = None
    side_px_max: int | None = None
    crowd_count: int | None = None
    crowd_side_px_max: int | None = None


class Target(msgspec.Struct, frozen=True):
    """The facts of a profile that encoders go by; see `convlog.projections.profiles` for their meaning."""

    provider: str
    model: str
    output_tokens_max: int = 4096
    system_role: str | None = None
    inline_system: bool = False
    prefill: bool = False
    results_alone: bool = False
    thinking: tuple[str, ...] = ()
    thinks_by_default: bool = False
    reasoning_content: str = "refused"
    thought_signatures: bool = False
    call_id: str = "default"
    cache: CacheFacts | None = None
    sampling_refused: bool = False
    forced_choice_refused_with_thinking: bool = False
    tool_name: str = "^[a-zA-Z0-9_-]{1,64}$"
    tools_max: int | None = None
    tool_description_chars_max: int | None = None
    images: ImageFacts | None = msgspec.field(default_factory=ImageFacts)
    """None where the model takes text only."""


class CacheFacts(msgspec.Struct, frozen=True):
    """How the provider caches."""

    kind: str = "none"
    marks_max: int = 0
    lookback_blocks: int = 0
    key: bool = False
    options: bool = False


class Options(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the caller asks of one request besides its content."""

    max_tokens: int | None = None
    tool_choice: str | None = None
    """auto, any, none, or a tool's name."""
    parallel_tools: bool | None = None
    thinking: dict[str, Any] | None = None
    """The provider's own thinking (or reasoning) setting, as it stands on the wire."""
    cache: bool = True
    """Whether to set cache marks and keys."""
    cache_key: str | None = None
    extra: dict[str, Any] | None = None
    """Further members of the request's top level, as they stand on the wire."""


def target(profile: bytes) -> Target:
    """Read the target from a profile's bytes."""
    return msgspec.json.decode(profile, type=Target)


Attachments = Mapping[str, bytes]


class MissingAttachment(Exception):
    """A prompt needs bytes that the store no longer has."""

    def __init__(self, name: str) -> None:
        super().__init__(f"attachment {name} is gone")
        self.name = name
