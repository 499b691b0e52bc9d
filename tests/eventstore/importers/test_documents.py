"""Documents taken apart at their top, whatever the pieces are in which they are read."""

from __future__ import annotations

import io
import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convlog.eventstore.importers import documents
from convlog.eventstore.importers.documents import WHOLE, DocumentReader
from convlog.eventstore.importers.hashes import Hashes
from convlog.eventstore.importers.report import ImportReport


def read(data: bytes, chunk: int = 7, most: int = 1000) -> tuple[list[tuple[int, Any]], ImportReport]:
    report = ImportReport(format="test")
    with mock.patch.multiple(documents, CHUNK_BYTES=chunk, VALUE_BYTES_MAX=most):
        reader = DocumentReader(io.BytesIO(data), report, "items")
        return [(record.line, json.loads(record.data)) for record in reader], report


def codes(report: ImportReport) -> list[tuple[int, str]]:
    return [(finding.line, finding.code) for finding in report.warnings]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(
    before=st.dictionaries(st.text().filter(lambda name: name != "items"), json_values, max_size=3),
    items=st.lists(json_values, max_size=5),
    chunk=st.integers(1, 40),
    indent=st.sampled_from([None, 2]),
)
def test_a_document_gives_what_it_says_and_its_items(
    before: dict[str, Any], items: list[Any], chunk: int, indent: int | None
) -> None:
    behind = {"behind": [1, {"a": "}"}]}
    data = json.dumps({**before, "items": items, **behind}, indent=indent).encode()
    found, report = read(data, chunk, 10**6)
    said = [(WHOLE, before)] if before else []
    assert found == [*said, *enumerate(items, 1), (WHOLE, behind)]
    assert (report.records, report.lost, report.size) == (len(found), 0, len(data))


@given(st.integers(0, 200), st.integers(1, 20))
def test_a_document_that_breaks_off_gives_what_came_before_the_break(cut: int, chunk: int) -> None:
    items = [{"n": number, "text": 'a"}]\\'} for number in range(6)]
    data = json.dumps({"items": items}).encode()
    found, report = read(data[:cut], chunk)
    assert found == [*enumerate(items, 1)][: len(found)]
    assert codes(report) == ([] if cut >= len(data) else [(WHOLE, "torn_tail")])


@pytest.mark.parametrize(
    ("data", "numbers", "found"),
    [
        (b'{"items":[1,{"a":"' + b"x" * 60 + b'"},3]}', [1, 3], [(2, "record_too_long")]),
        (b'{"big":[' + b"1," * 40 + b'1],"items":[1]}', [1], [(WHOLE, "record_too_long")]),
        (b'{"items":[1,{"a":tru},3]}', [1, 3], [(2, "bad_record")]),
        (b'{"items":[1,"\xff"]}', [1, 2], [(2, "invalid_utf8")]),
        (b'{"items":[1 2]}', [1], [(WHOLE, "bad_document")]),
        (b"[1]", [], [(WHOLE, "bad_document")]),
        (b'{"items":[{"a":1,"a":2}]}', [1], [(1, "doubled_key")]),
        (b'\xef\xbb\xbf{"items":[1]}', [1], []),
        (b'{"items":' + b"[" * 300 + b"]" * 300 + b"}", [], [(1, "too_deep")]),
        (b'{"items":7}', [0], []),
    ],
)
def test_damage_costs_a_record_and_is_reported(data: bytes, numbers: list[int], found: list[tuple[int, str]]) -> None:
    records, report = read(data, most=50 if len(data) < 500 else 1000)
    assert ([number for number, _ in records], codes(report)) == (numbers, found)


def test_a_set_of_hashes_says_what_is_new() -> None:
    texts = [str(number % 5000) for number in range(10_000)]
    hashes = Hashes()
    assert [hashes.add(text) for text in texts] == [True] * 5000 + [False] * 5000
