"""Profiles: dated data about the models that a prompt can be made for.

A profile is a JSON file. Prompts cite it by the hash of its exact bytes, so its meaning must lie in those bytes alone:
no field has a default here, and an unknown field is refused instead of ignored. What a provider changes becomes a new
file content with a new date and a new hash.

The rule ids in the field notes (A3, O14, X2 ...) are those of `convlog.projections.lint`, which reads the same fields.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from .errors import FormatRefused, ProfileRejected, UnknownProfile

Format: TypeAlias = Literal["anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"]
ThinkingMode: TypeAlias = Literal["adaptive", "enabled", "between_tools", "disabled"]


class CacheRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the provider caches the beginning of a prompt."""

    kind: Literal["breakpoints", "automatic", "none"]
    """Who says how far a prompt is cached: marks in the request, the provider by itself, or nobody."""
    tokens_min: int
    """A shorter prefix is never cached; 0 when no minimum is known."""
    step_tokens: int
    """A hit is rounded down to a multiple of this; 0 where it ends exactly at a mark or block, or is not documented."""
    ttls: tuple[str, ...]
    """Lifetimes that a request can ask for, the default first."""
    marks_max: int
    """Marks in one request, an automatic one counted in (A22); 0 where there are none."""
    lookback_blocks: int
    """How many blocks before a mark are tried for an older entry; 0 for no limit, or no marks."""
    key: bool
    """The request may name a `prompt_cache_key`."""
    options: bool
    """`prompt_cache_options` and `prompt_cache_breakpoint` are known (O13)."""


class ImageRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which images the model takes (A30); null where no limit is documented."""

    media_types: tuple[str, ...]
    count_max: int | None
    base64_bytes_max: int | None
    """Length of one image as it travels, in base64 text."""
    side_px_max: int | None
    crowd_count: int | None
    """With more images than this in one request, `crowd_side_px_max` is the limit of a side."""
    crowd_side_px_max: int | None


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of one target model at one date."""

    id: str
    date: str
    """The day, YYYY-MM-DD, for which every number and flag of the file holds."""
    notes: tuple[str, ...]
    """Where sources disagree, and which side was taken (always the strict one)."""
    provider: str
    model: str
    """The name that the request carries, in the body or in the address."""
    format: Format
    """The wire format that prompts for this model are encoded in unless another is asked for."""
    formats: tuple[Format, ...]
    """All formats in which the provider offers the model."""

    context_tokens: int
    """Input and output together."""
    output_tokens_max: int
    body_bytes_max: int | None
    """Size of a request with everything inline (A29, G16)."""
    cache: CacheRules
    images: ImageRules | None
    """None where the model takes text only."""

    system_role: Literal["system", "developer"] | None
    """The role of instructions inside the message list; None where they have a place of their own."""
    inline_system: bool
    """Instructions may also stand between later messages (A25)."""
    strict_alternation: bool
    """Two neighbouring messages of one role are refused, and the first is the user's (X5)."""
    prefill: bool
    """The request may end with the beginning of the answer (A3, A4)."""
    results_alone: bool
    """A user turn with tool results may hold nothing else (B7)."""

    thinking: tuple[ThinkingMode, ...]
    """Values of `thinking.type` that are accepted, the preferred one first (A31)."""
    thinks_by_default: bool
    """Thinking is on when the request says nothing about it."""
    sampling_refused: bool
    """temperature, top_p and top_k are refused (A31)."""
    forced_choice_refused_with_thinking: bool
    """A forced tool choice is refused while thinking is on (A33)."""
    reasoning_content: Literal["refused", "allowed", "required", "required-nonempty"]
    """The field `reasoning_content` on assistant messages of the chat dialects (O12, O14)."""
    thought_signatures: bool
    """The first call of every step of the current turn must carry `thoughtSignature` (G9)."""

    call_id: Literal["default", "mistral", "bedrock"]
    """The alphabet of tool call ids on the wire (X2)."""
    tool_name: str
    """A regular expression that the whole name of a declared tool matches (A13, O7, R14, G13, B3)."""
    tools_max: int | None
    tool_description_chars_max: int | None

    def in_format(self, name: str) -> Profile:
        """Give this profile for a prompt in format `name`.

        Raises:
            FormatRefused: the provider does not offer the model in that format.
        """
        for offered in self.formats:
            if offered == name:
                return msgspec.structs.replace(self, format=offered)
        raise FormatRefused(f"{self.id} is not offered as {name}", hint=f"it is as {', '.join(self.formats)}")


def bundled_profiles() -> list[str]:
    """Give the ids of the profiles that come with the package, sorted."""
    from importlib.resources import files

    folder = files(__package__).joinpath("data", "profiles")
    return sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))


def profile_bytes(profile_id: str) -> bytes:
    """Give the exact bytes of a bundled profile.

    Raises:
        UnknownProfile: naming the ids that exist.
    """
    from importlib.resources import files

    # The list is asked, not the file system: an id is a name and never a way out of the folder.
    known = bundled_profiles()
    if profile_id not in known:
        raise UnknownProfile(f"no profile {profile_id!r}", hint=f"known: {', '.join(known)}; or give a file")
    return files(__package__).joinpath("data", "profiles", f"{profile_id}.json").read_bytes()


def profile_hash(data: bytes) -> str:
    """Give the hash by which prompts cite a profile: blake3 of its exact bytes, in hex."""
    from blake3 import blake3

    return blake3(data).hexdigest()


def load_profile(source: str | Path | bytes) -> Profile:
    """Read a profile from a bundled id, a file, or bytes.

    A str is an id; it is taken as a file only if it has a folder separator or ends in `.json`.

    Raises:
        UnknownProfile: no such id or file.
        ProfileRejected: the content is no profile.
    """
    if isinstance(source, bytes):
        return _given(source)
    if isinstance(source, str) and not source.endswith(".json") and "/" not in source and "\\" not in source:
        return _bundled(source)
    try:
        data = Path(source).read_bytes()
    except OSError as error:
        raise UnknownProfile(f"no profile file {source}: {error.strerror}") from error
    return _decode(data, str(source))


@cache
def _bundled(profile_id: str) -> Profile:
    return _decode(profile_bytes(profile_id), f"profile {profile_id}")


@lru_cache(maxsize=64)
def _given(data: bytes) -> Profile:
    return _decode(data, "the bytes given")


def _decode(data: bytes, where: str) -> Profile:
    try:
        return msgspec.json.decode(data, type=Profile)
    except msgspec.DecodeError as error:
        raise ProfileRejected(f"{where}: no profile: {error}") from error
