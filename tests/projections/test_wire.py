"""What all wire formats share: ids that fit and stay, arguments that are objects, models that are the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.projections.stages.pieces_v1 import VERBATIM, Call, Piece
from convlog.projections.stages.wire_v1 import (
    ends_in_space,
    fits_common,
    json_object,
    read_object,
    same_model,
    well_formed,
    wire_ids,
)


def calls(*ids: str) -> list[Piece]:
    return [Piece(VERBATIM, "assistant", Call(id_, node, "read_gauge", "{}")) for node, id_ in enumerate(ids, 1)]


@given(st.lists(st.text(max_size=80)))
def test_ids_fit_and_are_unique_and_stay_as_calls_come(stored: list[str]) -> None:
    ids = wire_ids(calls(*stored))
    assert all(fits_common(id_) for id_ in ids.values())
    assert len(set(ids.values())) == len(stored)
    assert wire_ids(calls(*stored[:-1])) == {node: ids[node] for node in range(1, len(stored))}


def test_an_id_that_fits_is_kept_and_its_second_use_is_not() -> None:
    ids = wire_ids(calls("toolu_01", "toolu_01"))
    assert ids[1] == "toolu_01"
    assert ids[2] != "toolu_01"


@given(st.text(st.characters(codec=None)))
def test_any_arguments_become_a_json_object(text: str) -> None:
    data, mended = json_object(text)
    assert isinstance(json.loads(data.decode()), dict)
    assert mended == "" or data.decode() != text


@pytest.mark.parametrize(
    ("text", "data"),
    [("", b"{}"), (' {"b": 1.50} ', b'{"b": 1.50}'), ("[1]", b'{"value":[1]}'), ('{"a":', b'{"text":"{\\"a\\":"}')],
)
def test_arguments_keep_their_spelling_or_are_wrapped(text: str, data: bytes) -> None:
    assert json_object(text)[0] == data


@given(st.text(st.characters(codec=None)))
def test_texts_become_well_formed_and_stay_so(text: str) -> None:
    clean = well_formed(text)
    clean.encode()
    assert well_formed(clean) == clean
    assert len(clean) == len(text)


@pytest.mark.parametrize("made", ["gpt-5.4", "gpt-5.4-2026-03-05", "gpt-5.4-20260305"])
def test_a_model_with_a_date_is_the_same(made: str) -> None:
    assert same_model(made, "gpt-5.4")
    assert same_model("gpt-5.4", made)


@pytest.mark.parametrize("made", [None, "gpt-5.4-mini", "gpt-5.6", "gpt-5.4-2026", "gpt-5.4-٢٠٢٦٠٣٠٥", ""])
def test_other_models_are_others(made: str | None) -> None:
    assert not same_model(made, "gpt-5.4")


@pytest.mark.parametrize("text", ["", "[1]", '{"a":"\\ud800"}', "{", '{"a":1e999}'])
def test_what_is_no_object_is_no_opaque_part(text: str) -> None:
    assert read_object(text) is None


@given(st.text())
def test_white_space_at_the_end_is_what_python_strips(text: str) -> None:
    assert ends_in_space(text) == (text[-1:].isspace())
