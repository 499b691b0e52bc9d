"""What an encoder is told besides the pieces: the target, the options of this request, and attachments by hash.

The target is read from a profile's own bytes, so that a prompt derived later reads the same facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


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
    images: ImageFacts | None = None
    """None where the model takes text only."""


class ImageFacts(msgspec.Struct, frozen=True):
    """Which images the model takes."""

    media_types: tuple[str, ...] = ()


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
