"""Bodies that people write as JSON, and the schema that tells them how."""

from __future__ import annotations

import re

import msgspec
import pytest

from convlog.eventstore.errors import PayloadRejected
from convlog.eventstore.event_json import WRITTEN_BY_THE_STORE, body_from_json, json_schema
from convlog.eventstore.events import BODIES, Todo, TodoWritten


def test_a_body_is_read_from_its_fields() -> None:
    body = body_from_json("todo.written", '{"todos": [{"content": "test it"}]}')
    assert body == TodoWritten(todos=(Todo("test it"),))


@pytest.mark.parametrize(
    ("type_", "text", "says"),
    [
        ("nothing.known", "{}", "no type of event"),
        ("todo.written", '{"todo": []}', "no field 'todo'"),
        ("todo.written", "{}", "todos"),
        ("todo.written", "[]", "object"),
        ("todo.written", "{", "JSON"),
        ("todo.written", '{"todos": [{"content": NaN}]}', "JSON"),
        ("todo.written", '{"todos": ' + "[" * 201 + "]" * 201 + "}", "nested"),
        ("todo.written", '{"todos": [{"content": "\\ud800"}]}', "surrogate"),
    ],
)
def test_what_cannot_be_a_body_is_refused(type_: str, text: str, says: str) -> None:
    with pytest.raises(PayloadRejected, match=says) as caught:
        body_from_json(type_, text)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("type_", sorted(WRITTEN_BY_THE_STORE))
def test_what_only_the_store_writes_is_not_taken_by_hand(type_: str) -> None:
    with pytest.raises(PayloadRejected, match="the store itself"):
        body_from_json(type_, "{}")


def test_the_schema_speaks_of_every_type_with_its_version() -> None:
    schema = json_schema()
    told = {one["properties"]["type"]["const"]: one["properties"]["version"]["const"] for one in schema["oneOf"]}
    assert told == {type_: body.VERSION for type_, body in BODIES.items()}
    known = {f"#/$defs/{name}" for name in schema["$defs"]}
    assert set(re.findall(r"#/\$defs/\w+", msgspec.json.encode(schema).decode())) <= known


def test_the_schema_of_one_type_holds_only_what_it_uses() -> None:
    assert sorted(json_schema("todo.written")["$defs"]) == ["Todo", "TodoWritten"]
    with pytest.raises(PayloadRejected):
        json_schema("nothing.known")
