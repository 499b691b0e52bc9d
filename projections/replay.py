"""Replay: derive a recorded prompt again, compare it with what was prepared, and say what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from convlog.eventstore.canonical import digest
from convlog.eventstore.events import CallObserved, CallPrepared

from . import derive
from .calls import CallInfo, calls, leaf_and_at
from .errors import NoSuchProjection, NotDerivable
from .prepare import derived, fingerprints, newest_encoder
from .profiles import load_profile, profile_bytes, profile_hash
from .stages.target_v1 import Options

if TYPE_CHECKING:
    from .conversation import Thread

VerdictWord = Literal["exact", "differs", "unprovable", "derived"]

UNKEYED_CONTEXT = "convlog 1 derived prompt"
"""Domain of the digest of a prompt that was never recorded here."""

IMPORTED_ASSEMBLER = "transcript@1"
IMPORTED_PROFILE = "claude-sonnet-4-6"


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


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """One call, derived again."""

    call: int
    node: int
    """The leaf that the prompt was made at."""
    at: int
    assembler: str
    encoder: str
    verdict: VerdictWord
    reason: str = ""
    """For `unprovable`: version missing, redacted, attachment gone, not recorded, provider-held state, input
    unknown."""
    detail: str = ""
    digest: str = ""
    bytes: int = 0
    attested: str = ""
    """sent as prepared, sent otherwise, or not attested."""
    difference: Difference | None = None
    model: str | None = None
    prompt: derive.Derived | None = None
    """The prompt as derived now, where it could be."""


def replay(
    thread: Thread,
    *,
    numbers: Sequence[int] | None = None,
    assembler: str | None = None,
    encoder: str | None = None,
    until: int | None = None,
) -> Iterator[Replayed]:
    """Derive calls again, one verdict each, in order.

    Args:
        thread: the conversation.
        numbers: only these calls.
        assembler: another assembler than the recorded one (the verdict is then `derived`).
        encoder: another encoder.
        until: only calls up to this position.
    """
    for info in calls(thread, until):
        if numbers is None or info.number in numbers:
            yield replay_call(thread, info, assembler=assembler, encoder=encoder)


def replay_call(
    thread: Thread, info: CallInfo, *, assembler: str | None = None, encoder: str | None = None
) -> Replayed:
    """Derive one call again."""
    manifest = info.manifest
    if isinstance(info.event.body, CallObserved):
        return _observed(info, info.event.body)
    if manifest is None and info.kind == "prepared":
        return _unprovable(info, "redacted", "the manifest itself was erased")
    if manifest is None or assembler or encoder:
        return _derived(thread, info, assembler, encoder)
    return _compared(thread, info, manifest)


def recipe_of(thread: Thread, manifest: CallPrepared) -> derive.Recipe:
    """Give the recipe that a manifest names.

    Raises:
        NotDerivable: the profile is gone.
    """
    if thread.store.backend.attachment_size(manifest.profile) is None:
        raise NotDerivable(f"the profile {manifest.profile[:12]} is gone", reason="attachment gone")
    return derive.Recipe(
        assembler=manifest.assembler,
        encoder=manifest.encoder,
        profile=thread.store.attachment(manifest.profile),
        parameters=manifest.parameters,
        options=msgspec.json.decode(manifest.options, type=Options),
    )


def _derived(thread: Thread, info: CallInfo, assembler: str | None, encoder: str | None) -> Replayed:
    """Derive a prompt that nothing recorded can be compared with."""
    manifest = info.manifest
    leaf, at = leaf_and_at(info, thread)
    if manifest is not None:
        recipe = recipe_of(thread, manifest)
        recipe = msgspec.structs.replace(
            recipe,
            assembler=assembler or recipe.assembler,
            encoder=encoder or recipe.encoder,
            parameters="{}" if assembler else recipe.parameters,
        )
    else:
        recipe = imported_recipe(assembler, encoder)
    try:
        prompt = derived(thread, recipe, leaf, at)
    except NotDerivable as error:
        return _unprovable(info, error.reason, error.message, recipe)
    return Replayed(
        call=info.number,
        node=leaf,
        at=at,
        assembler=recipe.assembler,
        encoder=recipe.encoder,
        verdict="derived",
        digest=digest(prompt.body, UNKEYED_CONTEXT).hex(),
        bytes=len(prompt.body),
        model=info.answer.model if info.answer else None,
        prompt=prompt,
    )


def imported_recipe(assembler: str | None = None, encoder: str | None = None) -> derive.Recipe:
    """Give the recipe by which a call that was not prepared here is shown."""
    encoder = encoder or newest_encoder(load_profile(IMPORTED_PROFILE).format)
    return derive.Recipe(
        assembler=assembler or IMPORTED_ASSEMBLER,
        encoder=encoder,
        profile=profile_bytes(_profile_for(encoder)),
    )


def _profile_for(encoder: str) -> str:
    """Give a bundled profile of an encoder's format."""
    from .profiles import bundled_profiles

    format_ = encoder.split("@", maxsplit=1)[0]
    if load_profile(IMPORTED_PROFILE).format == format_:
        return IMPORTED_PROFILE
    return next((name for name in bundled_profiles() if load_profile(name).format == format_), IMPORTED_PROFILE)


def _compared(thread: Thread, info: CallInfo, manifest: CallPrepared) -> Replayed:
    key = info.event.secret
    recipe = None
    try:
        recipe = recipe_of(thread, manifest)
        prompt = derived(thread, recipe, manifest.leaf, manifest.at)
    except NotDerivable as error:
        reason = "redacted" if key is None and error.reason == "not recorded" else error.reason
        return _unprovable(info, reason, error.message, recipe)
    except NoSuchProjection as error:
        return _unprovable(info, "version missing", error.message, recipe)
    if key is None:
        return _unprovable(info, "redacted", "something that the prompt was made of was erased", recipe, prompt)
    same = len(prompt.body) == manifest.length and prompt.digest(key) == manifest.digest
    difference = None if same else _difference(prompt, manifest, key, recipe)
    return Replayed(
        call=info.number,
        node=manifest.leaf,
        at=manifest.at,
        assembler=manifest.assembler,
        encoder=manifest.encoder,
        verdict="exact" if same else "differs",
        digest=manifest.digest,
        bytes=len(prompt.body),
        attested=_attested(info),
        difference=difference,
        detail="" if difference is None else "; ".join(difference.causes),
        model=load_profile(recipe.profile).model,
        prompt=prompt,
    )


def _difference(prompt: derive.Derived, manifest: CallPrepared, key: bytes, recipe: derive.Recipe) -> Difference:
    """Find the first differing block by the digests kept: the interval between the last equal and the next."""
    equal, differing = -1, manifest.blocks
    for count, short in manifest.digests:
        here = prompt.rolling[count] if count < len(prompt.rolling) else None
        if here is not None and derive.keyed(key, here).startswith(short):
            equal = count
        else:
            differing = count
            break
    causes = tuple(_causes(manifest, recipe)) or ("something that the prompt was made of reads otherwise",)
    if equal < 0:
        return Difference(0, -1, None, None, (*causes, "what surrounds the talk: system, tools or options"))
    if equal == manifest.blocks == len(prompt.blocks):
        return Difference(equal, equal, None, None, (*causes, "only cache marks differ"))
    from .stages.request_v1 import pointers

    block = prompt.blocks[equal].decode() if differing == equal + 1 and equal < len(prompt.blocks) else None
    pointer = pointers(prompt.request)[equal] if block is not None else None
    return Difference(equal, differing - 1, pointer, block, causes)


def _causes(manifest: CallPrepared, recipe: derive.Recipe) -> Iterator[str]:
    recorded = manifest.fingerprint.split()
    for word, address, now, then in zip(
        ("assembler", "encoder"),
        (recipe.assembler, recipe.encoder),
        fingerprints(recipe).split(),
        recorded,
        strict=False,
    ):
        if now != then:
            yield f"the code of {word} {address} changed since ({then[:12]} then, {now[:12]} now)"
    if profile_hash(recipe.profile) != manifest.profile:
        yield "the profile's bytes changed"


def _attested(info: CallInfo) -> str:
    answer = info.answer
    if answer is None or answer.sent_as_prepared is None:
        return "not attested"
    return "sent as prepared" if answer.sent_as_prepared else "sent otherwise"


def _observed(info: CallInfo, body: CallObserved) -> Replayed:
    reason = "provider-held state" if body.provider_state else "input unknown"
    return Replayed(
        call=info.number,
        node=body.leaf,
        at=info.position - 1,
        assembler="",
        encoder="",
        verdict="unprovable",
        reason=reason,
        detail="the host built this request itself",
        digest=body.digest,
        bytes=body.length,
        model=body.model,
    )


def _unprovable(
    info: CallInfo,
    reason: str,
    detail: str,
    recipe: derive.Recipe | None = None,
    prompt: derive.Derived | None = None,
) -> Replayed:
    manifest = info.manifest
    return Replayed(
        call=info.number,
        node=manifest.leaf if manifest else info.position,
        at=manifest.at if manifest else info.position,
        assembler=manifest.assembler if manifest else recipe.assembler if recipe else "",
        encoder=manifest.encoder if manifest else recipe.encoder if recipe else "",
        verdict="unprovable",
        reason=reason,
        detail=detail,
        digest=manifest.digest if manifest else "",
        bytes=manifest.length if manifest else 0,
        attested=_attested(info),
        prompt=prompt,
    )
