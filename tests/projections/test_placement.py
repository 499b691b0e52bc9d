"""Replayed turns stand where each provider wants them (K25, K26)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.vectors_provider_input import PROVIDERS, run

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "provider_input.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_an_example_of_placement_holds(vector: dict[str, Any]) -> None:
    assert run(vector) is None


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_wrong_expectation_is_seen(provider: str) -> None:
    name = PROVIDERS[provider].talk
    messages = [{"role": "user", "text": "start"}, {"role": "assistant", "text": "end", "activities": []}]
    given = {"provider": provider, "projection": "turn_memory/4", "messages": messages}
    assert run({"id": "made", "input": given, "expect": {name: []}}) is not None
