"""Replayed turns stand where each provider wants them (K25, K26); the examples themselves run with all others."""

from __future__ import annotations

import pytest

from tests.vectors_provider_input import PROVIDERS, run

MESSAGES = [
    {"role": "user", "text": "start"},
    {"role": "assistant", "text": "end", "activities": [{"text_offset": 3, "tool": "glob", "status": "success"}]},
]
GIVEN = {"projection": "turn_memory/4", "messages": MESSAGES}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_wrong_expectation_is_seen_for_every_provider(provider: str) -> None:
    expected: dict[str, list[str]] = {PROVIDERS[provider].talk: []}
    assert run({"id": "made", "input": {**GIVEN, "provider": provider}, "expect": expected}) is not None
