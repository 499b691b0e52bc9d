"""Profiles: all load, are dated, cited by their bytes, and hold what the cache rules need."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from blake3 import blake3

from convlog.eventstore.errors import ConvlogError
from convlog.projections.errors import FormatRefused, ProfileRejected, UnknownProfile
from convlog.projections.profiles import Profile, bundled_profiles, load_profile, profile_bytes, profile_hash

IDS = bundled_profiles()

CACHE_TOKENS_MIN = {
    "claude-opus-4-6": 4096,
    "claude-sonnet-4-6": 1024,
    "claude-haiku-4-5": 4096,
    "claude-opus-5": 512,
    "gpt-5.4": 1024,
    "gpt-5.4-mini": 1024,
    "gpt-5.3-codex": 1024,
    "gpt-5.6": 1024,
    "gemini-3-flash-preview": 1024,
    "gemini-3-pro-preview": 4096,
    "deepseek-chat": 64,
    "deepseek-v4": 0,
    "kimi-k2.5": 0,
    "mistral": 0,
    "bedrock-claude": 1024,
}


def test_the_table_of_minimum_lengths_names_every_profile() -> None:
    assert sorted(CACHE_TOKENS_MIN) == IDS


@pytest.mark.parametrize("profile_id", IDS)
def test_profile_is_consistent(profile_id: str) -> None:
    profile = load_profile(profile_id)
    assert profile.id == profile_id
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", profile.date)
    assert profile.formats[0] == profile.format
    assert profile.output_tokens_max <= profile.context_tokens
    assert re.compile(profile.tool_name).fullmatch("read_gauge")
    assert (profile.cache.marks_max > 0) == (profile.cache.kind == "breakpoints")


@pytest.mark.parametrize("profile_id", IDS)
def test_minimum_cacheable_length_holds_for_its_date(profile_id: str) -> None:
    profile = load_profile(profile_id)
    assert (profile.date, profile.cache.tokens_min) == ("2026-11-29", CACHE_TOKENS_MIN[profile_id])


@pytest.mark.parametrize("profile_id", IDS)
def test_profile_says_the_same_whatever_way_it_is_loaded(profile_id: str, tmp_path: Path) -> None:
    data = profile_bytes(profile_id)
    file = tmp_path / "any.json"
    file.write_bytes(data)
    assert load_profile(data) == load_profile(file) == load_profile(str(file)) == load_profile(profile_id)


@pytest.mark.parametrize("profile_id", IDS)
def test_profile_is_cited_by_the_hash_of_its_exact_bytes(profile_id: str) -> None:
    data = profile_bytes(profile_id)
    assert profile_hash(data) == profile_hash(profile_bytes(profile_id)) == blake3(data).hexdigest()
    assert profile_hash(data + b"\n") != profile_hash(data)


def test_hash_is_plain_blake3() -> None:
    assert profile_hash(b"abc") == "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"


def test_every_field_is_said_in_the_file() -> None:
    """A default in the code would change what an old hash means."""
    for field in msgspec.structs.fields(Profile):
        assert field.required, field.name


@pytest.mark.parametrize("name", ["claude-sonnet-9", "", "..", "CLAUDE-OPUS-5"])
def test_unknown_id_names_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownProfile) as raised:
        load_profile(name)
    assert isinstance(raised.value, ConvlogError)
    assert all(known in str(raised.value) for known in IDS)


def test_missing_file_is_an_unknown_profile(tmp_path: Path) -> None:
    with pytest.raises(UnknownProfile, match=r"none\.json"):
        load_profile(tmp_path / "none.json")


def _with(data: bytes, **members: object) -> bytes:
    return msgspec.json.encode({**msgspec.json.decode(data), **members})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        _with(profile_bytes("mistral"), surprise=1),
        _with(profile_bytes("mistral"), format="telex"),
        _with(profile_bytes("mistral"), context_tokens="many"),
    ],
    ids=["empty", "list", "nothing said", "unknown field", "unknown format", "wrong type"],
)
def test_other_content_is_refused(data: bytes) -> None:
    with pytest.raises(ProfileRejected):
        load_profile(data)


def test_profile_can_be_used_in_each_format_that_is_offered() -> None:
    profile = load_profile("gpt-5.4")
    assert profile.format == "openai-responses"
    assert profile.in_format("openai-chat").format == "openai-chat"
    with pytest.raises(FormatRefused, match="openai-responses"):
        load_profile("gpt-5.3-codex").in_format("openai-chat")
