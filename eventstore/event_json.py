"""Bodies from JSON that people write, and the JSON Schema of all of them."""

from __future__ import annotations

from typing import Any

import msgspec

from . import canonical
from .errors import PayloadRejected
from .events import (
    BODIES,
    Body,
    CaptureDropped,
    HeadMoved,
    Redacted,
    ThreadCreated,
    ThreadDeleted,
    ThreadForked,
)

WRITTEN_BY_THE_STORE = frozenset(
    body.TYPE for body in (ThreadCreated, ThreadForked, ThreadDeleted, HeadMoved, Redacted, CaptureDropped)
)
"""Types that come with a change of the store itself; no one appends them alone."""


def body_from_json(type_: str, text: str) -> Body:
    """Read the body of an event of this type from JSON text.

    Raises:
        PayloadRejected: an unknown type, one that only the store writes, no JSON, unknown or ill-typed fields.
    """
    body = BODIES.get(type_)
    if body is None or type_ in WRITTEN_BY_THE_STORE:
        known = ", ".join(sorted(BODIES.keys() - WRITTEN_BY_THE_STORE))
        what = "is no type of event" if body is None else "is written by the store itself"
        raise PayloadRejected(f"{type_!r:.80} {what}", hint=f"types: {known}")
    canonical.check(canonical.parse_json(canonical.check_json_text(text)))
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        unknown = sorted(found.keys() - set(body.__struct_fields__))
        if unknown:
            raise PayloadRejected(
                f"{type_} has no field {', '.join(unknown)!r:.80}", hint=f"fields: {', '.join(body.__struct_fields__)}"
            )
        return msgspec.json.decode(text, type=body)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PayloadRejected(f"{type_}: {error}", hint="convlog schema prints what a body may hold") from None


def json_schema(type_: str | None = None) -> dict[str, Any]:
    """Give the JSON Schema (2020-12) of events as JSON, of all types or of one: `type` decides what `body` holds.

    Raises:
        PayloadRejected: an unknown type.
    """
    from msgspec.json import schema_components

    if type_ is not None and type_ not in BODIES:
        raise PayloadRejected(f"{type_!r:.80} is no type of event", hint=f"types: {', '.join(sorted(BODIES))}")
    bodies = [body for body in BODIES.values() if type_ in {None, body.TYPE}]
    schemas, components = schema_components(bodies, ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "convlog event",
        "type": "object",
        "required": ["type", "version", "body"],
        "oneOf": [
            {
                "properties": {
                    "type": {"const": body.TYPE},
                    "version": {"const": body.VERSION},
                    "body": {"anyOf": [schema, {"type": "null", "description": "redacted whole"}]},
                }
            }
            for body, schema in zip(bodies, schemas, strict=True)
        ],
        "$defs": dict(sorted(components.items())),
    }
