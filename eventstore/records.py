"""Drafts to stored records, and stored records to events: the only place where bodies are encoded and decoded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from blake3 import blake3

from . import upcasters
from .backend import Entropy, Record
from .canonical import (
    BODY_BYTES_MAX,
    SALT_BYTES,
    commitment,
    hash_header,
    header,
)
from .errors import BrokenRecord, PayloadRejected, TooLarge
from .events import BODIES, Body, Content, Event, Ref, Source, Unknown

KEY_LENGTH_MAX = 128
NAME_LENGTH_MAX = 128
TIME_MAX = 2**63
SALTS_DRAWN = 64
"""Salts drawn from the entropy at once."""
HOST = Source("host")

_is_key = re.compile(rf"[A-Za-z0-9._:/-]{{1,{KEY_LENGTH_MAX}}}").fullmatch
_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode


class _Decoders(dict[str, "msgspec.json.Decoder[Body]"]):
    """A decoder for each type of body, made when it is first needed: start-up is a feature."""

    def __missing__(self, type_: str) -> msgspec.json.Decoder[Body]:
        decoder = self[type_] = msgspec.json.Decoder(BODIES[type_])
        return decoder


_decoders = _Decoders()
_decode_blocks = msgspec.json.Decoder(tuple[Content, ...])
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_refs = msgspec.json.Decoder(tuple[Ref, ...])


class Member(msgspec.Struct, frozen=True):
    """A reference to an earlier member of the same batch, by its index from 0."""

    index: int


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """One event to be appended.

    `parent` and the positions in `refs` may be a `Member` of the same batch. A body that holds positions of the batch
    is given as a function of the positions of the members before it.
    """

    body: Body | Callable[[Sequence[int]], Body]
    parent: int | Member | None = None
    head: int | Member | None = None
    """For `head.moved` and `thread.forked` only: the node that becomes the active one."""
    key: str | None = None
    source: Source = HOST
    occurred_at: int | None = None
    refs: tuple[tuple[str, int | Member], ...] = ()
    output: bytes | None = None
    secret: bytes | None = None
    stray: bool = False
    """For importers: keep a result whose call is unknown or answered already."""


class Encoded(msgspec.Struct, frozen=True):
    """A body as bytes, checked."""

    type: str
    version: int
    body: bytes
    output: bytes | None


def encode_content(body: Body, output: bytes | None) -> Encoded:
    """Encode a body and check that it can be read back.

    Raises:
        PayloadRejected: text that is not well formed, a field of the wrong type.
        TooLarge: body and output together over the limit.
    """
    try:
        data = _encode(body)
    except UnicodeEncodeError:
        raise PayloadRejected(
            f"{body.TYPE}: half a surrogate pair in a text", hint="give it through `split_halves`"
        ) from None
    except (TypeError, RecursionError) as error:
        raise PayloadRejected(f"{body.TYPE}: {error}") from None
    size = len(data) + len(output or b"")
    if size > BODY_BYTES_MAX:
        raise TooLarge(
            f"{body.TYPE} of {size:,} bytes; the limit is {BODY_BYTES_MAX:,}", hint="store large things as attachments"
        )
    try:
        # Structs check types only on the way in; what could not be read back must not be stored.
        _decoders[body.TYPE].decode(data)
    except msgspec.ValidationError as error:
        raise PayloadRejected(f"{body.TYPE}: {error}") from None
    if output is not None:
        try:
            output.decode()
        except UnicodeDecodeError as error:
            raise PayloadRejected(f"{body.TYPE}: the output is not UTF-8 at byte {error.start}") from None
    return Encoded(body.TYPE, body.VERSION, data, output)


def seal(
    thread: str,
    position: int,
    previous: bytes | None,
    parent: int | None,
    head: int,
    content: Encoded,
    draft: Draft,
    refs: tuple[tuple[str, int], ...],
    recorded_at: int,
    salt: bytes,
) -> Record:
    """Make the record: commitment over the content, hash over the header, chained to the one before."""
    committed = commitment(salt, content.body, content.output)
    source = encode_source(draft.source)
    if draft.occurred_at is not None:
        _check_time(draft.occurred_at)
    refs_bytes = _encode(sorted(refs)) if refs else None
    hashed = hash_header(
        header(
            thread,
            position,
            previous,
            parent,
            head,
            refs_bytes,
            content.type,
            content.version,
            recorded_at,
            draft.occurred_at,
            source,
            draft.key,
            committed,
        )
    )
    return Record(
        position,
        parent,
        head,
        content.type,
        content.version,
        recorded_at,
        draft.occurred_at,
        source,
        draft.key,
        refs_bytes,
        hashed,
        committed,
        salt,
        draft.secret,
        content.body,
        content.output,
    )


def _check_time(time: int) -> None:
    if isinstance(time, bool) or not isinstance(time, int) or not -TIME_MAX <= time < TIME_MAX:
        raise PayloadRejected(f"occurred_at {time!r:.40} is no time", hint="give integer microseconds UTC")


def new_salt(entropy: Entropy) -> bytes:
    """Draw a commitment's salt."""
    return entropy(SALT_BYTES)


class Salts:
    """Draws salts many at a time: a system call for each would be a fortieth of an append."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._drawn: Iterator[bytes] = iter(())

    def __call__(self) -> bytes:
        """Give the next salt; none is given twice, to whatever threads ask."""
        while (salt := next(self._drawn, None)) is None:
            data = self._entropy(SALTS_DRAWN * SALT_BYTES)
            self._drawn = iter([data[start : start + SALT_BYTES] for start in range(0, len(data), SALT_BYTES)])
        return salt


@lru_cache(maxsize=4096)
def encode_source(source: Source) -> bytes:
    """Give the sorted-key JSON of a source.

    Raises:
        PayloadRejected: a name over 128 characters, empty, or with control characters.
    """
    for name in ("name", "provider", "model", "actor"):
        value = getattr(source, name)
        if value is not None:
            check_name(value, f"source {name}")
    try:
        data = _encode_sorted(source)
        msgspec.json.decode(data, type=Source)
    except (msgspec.ValidationError, TypeError, UnicodeEncodeError) as error:
        raise PayloadRejected(f"source: {error}") from None
    return data


@lru_cache(maxsize=4096)
def decode_source(data: bytes) -> Source:
    """Read a stored source.

    Raises:
        BrokenRecord: the bytes are none.
    """
    try:
        return msgspec.json.decode(data, type=Source)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenRecord(f"a source cannot be read: {error}") from None


def check_key(key: str) -> str:
    """Give an idempotency key back if it is well formed.

    Raises:
        PayloadRejected: not 1-128 characters of `A-Za-z0-9._:/-`.
    """
    if not isinstance(key, str) or _is_key(key) is None:
        raise PayloadRejected(
            f"key {key!r:.60} is not 1-{KEY_LENGTH_MAX} characters of A-Z a-z 0-9 . _ : / -",
            hint="hash what does not fit",
        )
    return key


def fit_key(text: str, length_max: int = KEY_LENGTH_MAX) -> str:
    """Give a text as it stands in keys: itself, or `h:` and its blake3 when it is too long or has other characters."""
    if len(text) <= length_max and _is_key(text) is not None:
        return text
    return f"h:{blake3(text.encode(errors='surrogatepass')).hexdigest()}"


def check_name(name: str, what: str) -> str:
    """Give a name back if it is 1-128 characters without controls.

    Raises:
        PayloadRejected: it is not.
    """
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX or not name.isprintable():
        raise PayloadRejected(f"{what} {name!r:.60} is not 1-{NAME_LENGTH_MAX} characters without controls")
    return name


def encode_blocks(blocks: Sequence[Content]) -> bytes:
    """Give the output bytes that content blocks are kept as (`form` is then "blocks")."""
    return _encode(blocks)


def decode_blocks(output: bytes) -> tuple[Content, ...]:
    """Read an output of the form "blocks"."""
    try:
        return _decode_blocks.decode(output)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PayloadRejected(
            f"the output is no list of content blocks: {error}", hint="give a text, or content blocks"
        ) from None


def decode_refs(data: bytes | None) -> tuple[Ref, ...]:
    """Read stored references.

    Raises:
        BrokenRecord: the bytes are none.
    """
    try:
        return () if data is None else _decode_refs.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BrokenRecord(f"references cannot be read: {error}") from None


def decode_body(type_: str, version: int, data: bytes) -> Any:
    """Read a stored body through the upcasters; `Unknown` for what a newer program wrote.

    Raises:
        BrokenRecord: the bytes are not what a body of this type and version can be.
    """
    body = BODIES.get(type_)
    if body is None or version > body.VERSION:
        return Unknown(data)
    try:
        if version == body.VERSION:
            return _decoders[type_].decode(data)
        return msgspec.convert(upcasters.upcast(type_, version, _decode_object(data)), body)
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError) as error:
        # An upcaster meets whatever somebody stored.
        raise BrokenRecord(f"a body of {type_} version {version} cannot be read: {error}") from None


def current_json(record: Record) -> bytes | None:
    """Give a body's JSON at the current schema version of its type."""
    body = BODIES.get(record.type)
    if record.body is None or body is None or record.version >= body.VERSION:
        return record.body
    return _encode(upcasters.upcast(record.type, record.version, _decode_object(record.body)))


def decode(thread: str, record: Record, redacted_by: int | None = None, *, body: bool = True) -> Event:
    """Give the event that a record holds."""
    return Event(
        thread=thread,
        position=record.position,
        parent=record.parent,
        head=record.head,
        type=record.type,
        version=record.version,
        recorded_at=record.recorded_at,
        occurred_at=record.occurred_at,
        source=decode_source(record.source),
        key=record.key,
        refs=decode_refs(record.refs),
        hash=record.hash,
        body=decode_body(record.type, record.version, record.body) if body and record.body is not None else None,
        output=record.output,
        secret=record.secret,
        redacted_by=redacted_by,
    )
