"""Every backend keeps the same rules."""

from __future__ import annotations

import pytest

from tests.eventstore.conformance import RULES
from tests.stores import Place


@pytest.mark.parametrize("name", RULES)
def test_a_backend_keeps_the_rule(name: str, any_place: Place) -> None:
    RULES[name](any_place)
