"""Where a prompt derived again first differs from the one prepared, and because of what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from convlog.eventstore import prompt_digests
from convlog.eventstore.errors import BrokenRecord
from convlog.eventstore.events import CallPrepared

from . import derive
from .prepare import distributions, fingerprints, runtime
from .stages.request_v1 import pointers

if TYPE_CHECKING:
    from .conversation import Thread

MARKS = frozenset({"cache_control"})
"""Members of a block that only mark it for the cache."""


HOLDERS = ("content", "parts")
"""Members of a message that hold its blocks, in the formats that have such."""


class Difference(msgspec.Struct, frozen=True):
    """Where a prompt first differs, and because of what."""

    first: int
    """Blocks before it are equal."""
    last: int
    """The first difference lies in the blocks `first`..`last`, counted from 0; -1 for what surrounds them."""
    pointer: str | None
    """JSON pointer of the block, where it is known to one."""
    text: str | None
    """What stands there now."""
    causes: tuple[str, ...]
    """The versions and data that changed; what the block is made of."""
    old: str | None = None
    """What stood there, where a capture was kept."""


def difference_of(thread: Thread, prompt: derive.Derived, manifest: CallPrepared, key: bytes) -> Difference:
    """Find the first differing block by the digests kept: the interval between the last equal and the next.

    A capture, where one was kept, narrows the interval to one block.
    """
    equal, differing = -1, manifest.blocks
    for count, digest in prompt_digests.unpacked(manifest.digests, manifest.blocks):
        here = prompt.rolling[count] if count < len(prompt.rolling) else None
        if here is not None and derive.short(key, here) == digest:
            equal = count
        else:
            differing = count
            break
    causes = tuple(_causes(manifest, prompt.recipe))
    if equal < 0:
        return Difference(0, -1, None, None, (*causes, "what surrounds the talk: system, tools or options"))
    if equal == manifest.blocks == len(prompt.blocks):
        what = "only cache marks, or how blocks make up messages, differ"
        return Difference(equal, equal, None, None, (*causes, what))
    captured = _captured(thread, manifest, prompt)
    if captured is not None:
        equal, differing = _narrowed(prompt, captured, equal, differing)
    # At the end of what was prepared, whatever comes next is more than there was.
    known = differing == equal + 1 or equal == manifest.blocks
    return _at_block(prompt, equal, max(differing, equal + 1), causes, captured, known=known)


def _at_block(
    prompt: derive.Derived,
    equal: int,
    differing: int,
    causes: tuple[str, ...],
    captured: list[Any] | None,
    *,
    known: bool,
) -> Difference:
    if equal >= len(prompt.blocks):
        return Difference(equal, differing - 1, None, None, (*causes, "the prompt is shorter now"))
    if not known:
        what = () if causes else ("something that the prompt was made of reads otherwise",)
        return Difference(equal, differing - 1, None, None, (*causes, *what))
    pointer = pointers(prompt.request)[equal]
    old = captured[equal] if captured is not None and equal < len(captured) else None
    sources = sources_of(prompt, equal)
    made_of = f"made of {', '.join(f':{position}' for position in sources)}" if sources else "made by the encoder"
    return Difference(
        equal,
        differing - 1,
        pointer,
        prompt.blocks[equal].decode(),
        (*causes, f"the block is {made_of}"),
        None if old is None else msgspec.json.encode(old).decode(),
    )


def sources_of(prompt: derive.Derived, block: int) -> tuple[int, ...]:
    """Give the positions of the events that a block was made of."""
    wire = [wire for item in prompt.request.items for wire in item.blocks][block]
    return tuple(sorted({position for index in wire.pieces for position in prompt.pieces[index].sources}))


def _captured(thread: Thread, manifest: CallPrepared, prompt: derive.Derived) -> list[Any] | None:
    """Give the blocks of the request as it was prepared, where a capture was kept and can be told apart into them."""
    if manifest.capture is None or thread.store.backend.attachment_size(manifest.capture) is None:
        return None
    try:
        request = msgspec.json.decode(thread.store.attachment(manifest.capture), type=dict[str, Any])
    except (BrokenRecord, msgspec.DecodeError):
        return None
    name = next(field.name for field in prompt.request.fields if field.data is None)
    blocks = [block for item in request.get(name, ()) for block in _blocks_of(item)]
    return blocks if len(blocks) == manifest.blocks else None


def _blocks_of(item: Any) -> list[Any]:
    inner = next((item[key] for key in HOLDERS if isinstance(item, dict) and isinstance(item.get(key), list)), None)
    return (
        [item]
        if inner is None
        else [block for block in inner if not (isinstance(block, dict) and "cachePoint" in block)]
    )


def _narrowed(prompt: derive.Derived, captured: list[Any], first: int, last: int) -> tuple[int, int]:
    """Find the one block in an interval that a capture has otherwise."""
    for block in range(first, min(last, len(prompt.blocks), len(captured))):
        _, now = msgspec.json.decode(prompt.blocks[block])
        then = captured[block]
        if now != (_unmarked(then) if isinstance(now, dict) and isinstance(then, dict) else then):
            return block, block + 1
    return first, last


def _unmarked(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name not in MARKS}


def _causes(manifest: CallPrepared, recipe: derive.Recipe) -> Iterator[str]:
    """Name what is otherwise than when the prompt was made: code and data of versions, packages, the runtime."""
    for word, address, now, then in zip(
        ("assembler", "encoder"),
        (recipe.assembler, recipe.encoder),
        fingerprints(recipe).split(),
        manifest.fingerprint.split(),
        strict=False,
    ):
        if now != then:
            yield f"the code or data of {word} {address} changed since ({then[:12]} then, {now[:12]} now)"
    for address, now in distributions(recipe).items():
        then = manifest.distributions.get(address, "another")
        if now != then:
            yield f"{address} came from {then} then, from {now} now"
    if manifest.runtime and manifest.runtime != runtime():
        yield f"{manifest.runtime} then, {runtime()} now"
