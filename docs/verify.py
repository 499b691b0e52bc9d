#!/usr/bin/env python3
"""Check a native export of a convlog thread without convlog: the standard library and blake3 are enough.

    python3 verify.py EXPORT.jsonl [--tip HASH]

It checks, with the rules of data-file.md alone:

* every header has the hash that stands beside it, and names the hash before it (the chain);
* every body and output is what its header committed to;
* content that is not there was erased by a `redacted` event, and what such an event names is not there;
* the key of every prepared prompt is the one that its manifest names;
* every attachment holds the bytes of its name, and none that an event uses is missing;
* the last line names the tip and the count; with --tip, the log contains that hash, kept elsewhere.

It prints one line for each finding and one for the result, and ends with 0 when nothing is wrong, else with 1. Whether
the events make sense (the tree, the head, calls and results) is not its business.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

try:
    from blake3 import blake3
except ImportError:
    sys.exit("verify.py needs blake3: pip install blake3")

FORMAT = "convlog-export/1"
HEADER_CONTEXT = "convlog 1 header"
BODY_CONTEXT = "convlog 1 body"
FIELDS = frozenset(
    {
        *("thread", "position", "parent", "head", "type", "version", "recorded_at", "occurred_at", "source", "key"),
        *("refs", "hash", "commitment", "salt", "secret", "body", "output", "redacted_by"),
    }
)
NOTES = ("redacted", "redacted_elsewhere")


def cj1(value: Any) -> bytes:
    """Give the canonical JSON of a header: compact, UTF-8, only `"`, backslash and control characters escaped."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def unhex(text: str) -> bytes:
    """Read lower-case hex."""
    data = bytes.fromhex(text)
    if data.hex() != text:
        raise ValueError(f"{text!r:.20} is not lower-case hex")
    return data


def header_of(event: dict[str, Any], previous: str | None) -> bytes:
    """Give the 14 entries that an event's hash is taken of, as bytes."""
    names = ("parent", "head", "refs", "type", "version", "recorded_at", "occurred_at", "source", "key", "commitment")
    return cj1([1, event["thread"], event["position"], previous, *(event.get(name) for name in names)])


def hash_of(header: bytes) -> str:
    """Give the hash of a header."""
    return blake3(header, derive_key_context=HEADER_CONTEXT).hexdigest()


def commitment_of(salt: bytes, body: bytes, output: bytes | None) -> str:
    """Give what a header commits to: 16 random bytes, then body and output, each behind its length."""
    data = salt + len(body).to_bytes(8, "little") + body
    data += (0 if output is None else len(output) + 1).to_bytes(8, "little") + (output or b"")
    return blake3(data, derive_key_context=BODY_CONTEXT).hexdigest()


class Verifier:
    """One export, line by line."""

    def __init__(self, tip: str | None) -> None:
        self.findings: list[tuple[str, str, str]] = []
        """(kind, place, message)."""
        self.tip = tip
        self.previous: str | None = None
        self.position = 0
        self.lineage: list[dict[str, Any]] = []
        self.types: dict[int, str] = {}
        self.absent: dict[int, dict[str, Any]] = {}
        self.named: dict[int, int] = {}
        self.used: dict[str, int] = {}
        self.attachments: set[str] = set()
        self.open: tuple[str, int, int, Any] | None = None
        """The attachment that is being read: name, bytes and chunks so far, hasher."""
        self.expected = 0
        self.ended = False

    def report(self, kind: str, position: int | None, message: str) -> None:
        """Add a finding."""
        place = "file" if position is None else f"{self.owner(position)}:{position}"
        self.findings.append((kind, place, message))

    def owner(self, position: int) -> str:
        """Give the thread that a position belongs to."""
        return next((str(t["thread"]) for t in reversed(self.lineage) if t["origin_position"] < position), "?")

    def read(self, lines: Iterable[bytes]) -> None:
        """Check a whole file."""
        for number, line in enumerate(lines, 1):
            try:
                item = json.loads(line)
                self.take(number, item)
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                self.report("unreadable", None, f"line {number}: {error!r}")
        self.finish()

    def take(self, number: int, item: dict[str, Any]) -> None:
        """Check one line."""
        if self.ended:
            raise ValueError("something stands behind the last line")
        if self.open is not None and not (item.get("attachment") == self.open[0] and item["number"] > 0):
            self.close_attachment()
        if number == 1:
            self.take_header(item)
        elif "attachment" in item:
            self.take_chunk(item)
        elif "position" in item:
            self.take_event(item)
        else:
            self.take_end(item)

    def take_header(self, item: dict[str, Any]) -> None:
        """Check the first line: whose log it is, and which threads share it."""
        if set(item) != {"format", "thread", "threads"} or item["format"] != FORMAT:
            raise ValueError(f"no header of {FORMAT}")
        origin, before = None, -1
        for thread in item["threads"]:
            if thread["origin"] != origin or thread["origin_position"] <= before or len(thread) != 3:
                raise ValueError("the lineage is broken")
            origin, before = thread["thread"], thread["origin_position"]
        if origin != item["thread"] or item["threads"][0]["origin_position"] != 0:
            raise ValueError("the lineage does not lead from a root to the thread")
        self.lineage = item["threads"]

    def take_event(self, event: dict[str, Any]) -> None:
        """Check an event's header, its place in the chain and its content."""
        position = event["position"]
        if position != self.position + 1:
            self.report("gap", self.position + 1, f"position {position} follows {self.position}")
        if event["thread"] != self.owner(position):
            self.report("thread", position, f"it says that it belongs to {event['thread']}")
        if set(event) - FIELDS:
            self.report("field", position, f"unknown: {', '.join(sorted(set(event) - FIELDS))}")
        if hash_of(header_of(event, self.previous)) != event["hash"]:
            self.report("hash", position, "the header does not have its hash")
        self.position, self.previous = position, event["hash"]
        if event["hash"] == self.tip:
            self.tip = None
        self.types[position] = event["type"]
        self.take_content(event, position)

    def take_content(self, event: dict[str, Any], position: int) -> None:
        """Check body, output and secret."""
        salt, text, output_text = event.get("salt"), event.get("body"), event.get("output")
        if salt is None and text is None and output_text is None:
            self.absent[position] = event
            return
        if salt is None or text is None:
            self.report("missing", position, "salt or body is absent, and the rest is there")
            return
        if event.get("redacted_by") is not None:
            self.report("erasure_incomplete", position, "it is marked as erased")
        output = None if output_text is None else output_text.encode()
        if commitment_of(unhex(salt), text.encode(), output) != event["commitment"]:
            self.report("commitment", position, "body or output are not what the header committed to")
            return
        body = json.loads(text)
        secret = event.get("secret")
        if event["type"] == "call.prepared" and secret is not None:
            if blake3(unhex(secret)).hexdigest() != body["digest_key_hash"]:
                self.report("manifest", position, "its key is not the one that it names")
        elif secret is not None:
            self.report("manifest", position, "a key that belongs to no prompt")
        if event["type"] == "redacted":
            self.take_redacted(position, body)
        if event["type"] == "capture.dropped":
            self.used = {name: user for name, user in self.used.items() if user != body["call"]}
        for name in attachments_in(event["type"], body, output_text):
            self.used.setdefault(name, position)

    def take_redacted(self, by: int, body: dict[str, Any]) -> None:
        """Take what a `redacted` event says; what stands in place of an older one says what that one did."""
        for target in body["targets"]:
            position = target["position"]
            if position not in self.absent:
                self.report("erasure_incomplete", position, f"event {by} says that it was erased")
                continue
            self.named[position] = by
            if self.types[position] == "redacted" and target.get("body") is not None:
                for older in json.loads(target["body"])["targets"]:
                    self.named.setdefault(older["position"], position)

    def take_chunk(self, chunk: dict[str, Any]) -> None:
        """Take a part of an attachment."""
        name, size, count, hasher = self.open or (chunk["attachment"], 0, 0, blake3())
        data = base64.b64decode(chunk["bytes"], validate=True)
        if base64.b64encode(data).decode() != chunk["bytes"]:
            raise ValueError(f"attachment {name}: its base64 has bits left over")
        hasher.update(data)
        if set(chunk) != {"attachment", "size", "number", "bytes"} or chunk["number"] != count:
            self.report("attachment", None, f"{name}: chunk {chunk['number']} is out of order")
        self.open = (name, size + len(data), count + 1, hasher)
        if self.open[1] > chunk["size"] or (len(data) == 0) != (chunk["size"] == 0):
            self.report("attachment", None, f"{name}: its size is not {chunk['size']}")
        self.expected = chunk["size"]

    def close_attachment(self) -> None:
        """Check an attachment that came whole."""
        name, size, _, hasher = self.open or ("", 0, 0, blake3())
        self.open = None
        self.attachments.add(name)
        if hasher.hexdigest() != name or size != self.expected:
            self.report("attachment", None, f"{name} does not hold the bytes of its name")

    def take_end(self, item: dict[str, Any]) -> None:
        """Check the last line."""
        self.ended = True
        if set(item) != {"tip", "events"} or item["tip"] != self.previous or item["events"] != self.position:
            self.report(
                "end", None, f"the log ends at {self.position} with {self.previous}, the last line says otherwise"
            )

    def finish(self) -> None:
        """Judge what only the whole file can say."""
        if not self.ended:
            self.report("end", None, "there is no last line: the file is cut")
        if self.tip is not None:
            self.report("lost_tail", None, f"no event has the hash {self.tip}")
        ends = {self.owner(position): position for position in self.types}
        for position, event in self.absent.items():
            by, marked = self.named.get(position), event.get("redacted_by")
            own = self.owner(position) == self.owner(self.position)
            if by is not None and by == marked:
                self.report("redacted", position, f"content erased by event {by}")
            elif by is None and marked is not None and not own and marked > ends[self.owner(position)]:
                self.report("redacted_elsewhere", position, f"content erased by event {marked} of its thread, not here")
            else:
                self.report("missing", position, f"content absent; marked as erased by {marked}, named by {by}")
        for name, position in self.used.items():
            if name not in self.attachments:
                self.report("attachment", position, f"attachment {name} is missing")


def attachments_in(type_: str, body: dict[str, Any], output: str | None) -> Iterator[str]:
    """Give the attachments that an event uses."""
    if type_ in ("call.prepared", "call.observed"):
        yield from (body[field] for field in ("profile", "capture") if body.get(field))
    blocks = body.get("content", []) if type_ == "input.added" else []
    if type_ == "tool.returned" and body.get("form") == "blocks" and output is not None:
        blocks = json.loads(output)
    yield from (block["attachment"] for block in blocks if block.get("attachment"))


def main(arguments: list[str] | None = None) -> int:
    """Check a file and print what was found."""
    parser = argparse.ArgumentParser(description="Check a native export of a convlog thread.")
    parser.add_argument("export", help="the file")
    parser.add_argument("--tip", help="hash of an event, kept elsewhere, that the log must contain")
    options = parser.parse_args(arguments)
    verifier = Verifier(options.tip)
    with Path(options.export).open("rb") as file:
        verifier.read(file)
    faults = 0
    for kind, place, message in verifier.findings:
        faults += kind not in NOTES
        print(f"{kind}  {place}  {message}")
    noun = "fault" if faults == 1 else "faults"
    print(f"{'NOT OK' if faults else 'ok'}: {verifier.position} events, tip {verifier.previous}, {faults} {noun}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
