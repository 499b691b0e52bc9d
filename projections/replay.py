"""Replay: derive a recorded prompt again, compare it with what was prepared, and say what became of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import TYPE_CHECKING, Literal

import msgspec

from convlog.eventstore.canonical import digest
from convlog.eventstore.errors import BrokenRecord, ConvlogError, NotFound
from convlog.eventstore.events import CallObserved, CallPrepared, Unknown

from . import derive, registry
from .calls import CallInfo, calls, leaf_and_at
from .defaults import DEFAULT_MODEL, DEFAULT_MODELS
from .difference import Difference, difference_of
from .errors import BadProjection, NoSuchProjection, NotDerivable
from .live import LiveThreads
from .material import derived
from .prepare import newest_encoder
from .profiles import load_profile, profile_bytes
from .stages.target_v1 import Options

if TYPE_CHECKING:
    from .conversation import Thread

VerdictWord = Literal["exact", "differs", "unprovable", "derived"]

UNKEYED_CONTEXT = "convlog 1 derived prompt"
"""Domain of the digest of a prompt that was never recorded here."""

IMPORTED_ASSEMBLER = "transcript@1"


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
    unknown, damaged."""
    detail: str = ""
    hint: str = ""
    """How to go on, where something is missing that can be had."""
    digest: str = ""
    bytes: int = 0
    attested: str = ""
    """sent as prepared, sent otherwise, or not attested."""
    difference: Difference | None = None
    model: str | None = None
    """The model that answered, or that the prompt was made for."""
    target: str | None = None
    """The model that the prompt is derived for now; another than was asked where the recorded one is not known, or not
    offered in the format."""
    prompt: derive.Derived | None = None
    """The prompt as derived now, where it could be."""


def replay(
    thread: Thread,
    *,
    numbers: Collection[int] | None = None,
    assembler: str | None = None,
    encoder: str | None = None,
    until: int | None = None,
    on: int | None = None,
    newest: int | None = None,
    kept: LiveThreads | None = None,
) -> Iterator[Replayed]:
    """Derive calls again, one verdict each, in order; one prompt at a time is held.

    A prompt is gone on to from the one before. Whenever a talk doubled, and for the last call by each recipe, it is
    derived whole as well; should the two not be the same, all that follow are derived whole, and `kept.failed` says so.

    Args:
        thread: the conversation.
        numbers: only these calls.
        assembler: another assembler than the recorded one (the verdict is then `derived`).
        encoder: another encoder.
        until: only calls up to this position.
        on: only calls whose prompt was made on the path to this node.
        newest: only so many of these, the last ones.
        kept: what prompts are gone on from (default: a new one, that checks).

    Raises:
        NoSuchProjection: the assembler or encoder asked for is not installed.
    """
    kept = LiveThreads(checks=True) if kept is None else kept
    wanted = [
        info
        for info in calls(thread, until)
        if (numbers is None or info.number in numbers)
        and (on is None or thread.tree.is_above(leaf_and_at(info, thread)[0], on))
    ]
    wanted = wanted if newest is None else wanted[max(0, len(wanted) - newest) :]
    last = set({_recipe_named(info): info.number for info in wanted}.values())
    for info in wanted:
        check = info.number in last
        yield replay_call(thread, info, assembler=assembler, encoder=encoder, kept=kept, check=check)


def _recipe_named(info: CallInfo) -> tuple[str, ...]:
    """Give what a call's manifest says of how its prompt was made."""
    made = info.manifest
    return () if made is None else (made.assembler, made.encoder, made.profile, made.parameters, made.options)


def replay_call(
    thread: Thread,
    info: CallInfo,
    *,
    assembler: str | None = None,
    encoder: str | None = None,
    kept: LiveThreads | None = None,
    check: bool = False,
) -> Replayed:
    """Derive one call again; `kept` is what the calls before it left to go on from, `check` asks to compare."""
    for address, kind in ((assembler, "assembler"), (encoder, "encoder")):
        if address is not None:
            registry.get(address, kind)
    if isinstance(info.event.body, CallObserved):
        return _observed(info, info.event.body)
    if isinstance(info.event.body, Unknown):
        return unprovable(info, "version missing", "its manifest is of a newer program", hint="upgrade convlog")
    if info.manifest is None and info.kind != "imported":
        return unprovable(info, "redacted", "what was recorded of the call was itself erased")
    recipe = None
    try:
        recipe = _recipe(thread, info, assembler, encoder)
        prompt = _run(thread, info, recipe, kept, check=check)
        if info.manifest is None or assembler or encoder:
            return _derived(thread, info, prompt)
        replayed = _compared(thread, info, info.manifest, prompt)
        if replayed.verdict == "differs" and kept is not None:
            # Nobody is told of a difference before the whole was derived in one go.
            replayed = _compared(thread, info, info.manifest, _run(thread, info, recipe, None))
    except NotDerivable as error:
        return unprovable(info, error.reason, error.message, recipe, hint=error.hint)
    return replayed


def damaged(replayed: Replayed) -> Replayed:
    """Give a verdict as it stands where the thread is damaged: nothing of it is exact."""
    if replayed.verdict != "exact":
        return replayed
    return msgspec.structs.replace(
        replayed, verdict="unprovable", reason="damaged", detail="the thread does not verify", difference=None
    )


# --- deriving ---


def _recipe(thread: Thread, info: CallInfo, assembler: str | None, encoder: str | None) -> derive.Recipe:
    """Give the recipe of a call, with what is asked for in place of what was recorded."""
    if info.manifest is None:
        return imported_recipe(assembler, encoder)
    return varied(recipe_of(thread, info.manifest), assembler, encoder)


def varied(recipe: derive.Recipe, assembler: str | None = None, encoder: str | None = None) -> derive.Recipe:
    """Give a recipe with another assembler or encoder; a profile that does not offer the format gives way too."""
    profile = recipe.profile
    if encoder is not None and not _is_offered(profile, encoder):
        profile = profile_bytes(_profile_for(encoder))
    return msgspec.structs.replace(
        recipe,
        assembler=assembler or recipe.assembler,
        encoder=encoder or recipe.encoder,
        profile=profile,
        parameters=recipe.parameters if assembler in {None, recipe.assembler} else "{}",
    )


def recipe_of(thread: Thread, manifest: CallPrepared) -> derive.Recipe:
    """Give the recipe that a manifest names.

    Raises:
        NotDerivable: the profile is gone, or an option is of a newer program.
    """
    if thread.store.backend.attachment_size(manifest.profile) is None:
        raise NotDerivable(f"the profile {manifest.profile[:12]} is gone", reason="attachment gone")
    try:
        options = msgspec.json.decode(manifest.options, type=Options)
        profile = thread.store.attachment(manifest.profile)
    except msgspec.DecodeError as error:
        raise NotDerivable(f"options that this program does not know: {error}", reason="version missing") from None
    except BrokenRecord as error:
        raise NotDerivable(f"the profile: {error.message}", reason="damaged") from None
    return derive.Recipe(
        assembler=manifest.assembler,
        encoder=manifest.encoder,
        profile=profile,
        parameters=manifest.parameters,
        options=options,
    )


def _run(
    thread: Thread, info: CallInfo, recipe: derive.Recipe, kept: LiveThreads | None, *, check: bool = False
) -> derive.Derived:
    """Derive a call's prompt; whatever stops that is a reason.

    Raises:
        NotDerivable: it cannot be derived.
    """
    leaf, at = leaf_and_at(info, thread)
    erased = info.manifest is not None and info.event.secret is None
    try:
        live = None if kept is None else kept.derive(thread, recipe, leaf, at, check=check)
        prompt = derived(thread, recipe, leaf, at) if live is None else live[0]
        prompt.body  # noqa: B018 - made here, where what stops it is a reason
    except NotDerivable as error:
        if erased and error.reason == "not recorded":
            raise NotDerivable(error.message, reason="redacted") from None
        raise
    except (NoSuchProjection, BadProjection) as error:
        raise NotDerivable(error.message, reason="version missing", hint=_way_on(info, recipe)) from None
    except (BrokenRecord, NotFound, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotDerivable(f"what is stored cannot be read: {error}", reason="damaged") from None
    except ConvlogError:
        raise
    except Exception as error:
        # A version may be anybody's code, and fail in any way.
        detail = f"{recipe.assembler} and {recipe.encoder} as installed fail: {type(error).__name__}: {error}"
        raise NotDerivable(detail, reason="redacted" if erased else "version missing") from error
    return prompt


def _way_on(info: CallInfo, recipe: derive.Recipe) -> str:
    """Say where a version is to be had that a recipe names and this program lacks, and what derives without it."""
    known = info.manifest.distributions if info.manifest is not None else {}
    ways = []
    for address, option, other in (
        (recipe.assembler, "--as", IMPORTED_ASSEMBLER),
        (recipe.encoder, "--encoder", newest_encoder(load_profile(recipe.profile).format)),
    ):
        try:
            registry.get(address)
        except NoSuchProjection:
            source = known.get(address)
            package = f"install {source}" if source else f"install the package, or import the module, of {address}"
            ways.append(f"{package}; or derive by another version: {option} {other}")
    return "; ".join(ways)


def _derived(thread: Thread, info: CallInfo, prompt: derive.Derived) -> Replayed:
    """Give a prompt that nothing recorded can be compared with."""
    leaf, at = leaf_and_at(info, thread)
    return Replayed(
        call=info.number,
        node=leaf,
        at=at,
        assembler=prompt.recipe.assembler,
        encoder=prompt.recipe.encoder,
        verdict="derived",
        digest=digest(prompt.body, UNKEYED_CONTEXT).hex(),
        bytes=prompt.length,
        model=info.answer.model if info.answer else load_profile(prompt.recipe.profile).model,
        target=load_profile(prompt.recipe.profile).model,
        prompt=prompt,
    )


@cache
def imported_recipe(assembler: str | None = None, encoder: str | None = None) -> derive.Recipe:
    """Give the recipe by which a call that was not prepared here is shown."""
    encoder = encoder or newest_encoder(load_profile(DEFAULT_MODEL).format)
    return derive.Recipe(
        assembler=assembler or IMPORTED_ASSEMBLER,
        encoder=encoder,
        profile=profile_bytes(_profile_for(encoder)),
    )


def _format(encoder: str) -> str:
    return encoder.split("@", maxsplit=1)[0]


def _is_offered(profile: bytes, encoder: str) -> bool:
    """Whether a profile offers an encoder's format; a user's encoder is asked nothing."""
    return encoder not in registry.OWN or _format(encoder) in load_profile(profile).formats


def _profile_for(encoder: str) -> str:
    """Give a bundled profile of an encoder's format."""
    return DEFAULT_MODELS.get(_format(encoder), DEFAULT_MODEL)


# --- comparing ---


def _compared(thread: Thread, info: CallInfo, manifest: CallPrepared, prompt: derive.Derived) -> Replayed:
    key = info.event.secret
    if key is None:
        detail = "something that the prompt was made of was erased"
        return unprovable(info, "redacted", detail, prompt.recipe, prompt)
    same = prompt.length == manifest.length and prompt.digest(key) == manifest.digest
    difference = None if same else difference_of(thread, prompt, manifest, key)
    return Replayed(
        call=info.number,
        node=manifest.leaf,
        at=manifest.at,
        assembler=manifest.assembler,
        encoder=manifest.encoder,
        verdict="exact" if same else "differs",
        digest=manifest.digest,
        bytes=prompt.length,
        attested=_attested(info),
        difference=difference,
        detail="" if difference is None else "; ".join(difference.causes),
        model=load_profile(prompt.recipe.profile).model,
        target=load_profile(prompt.recipe.profile).model,
        prompt=prompt,
    )


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


def unprovable(
    info: CallInfo,
    reason: str,
    detail: str,
    recipe: derive.Recipe | None = None,
    prompt: derive.Derived | None = None,
    *,
    hint: str = "",
) -> Replayed:
    """Give the verdict of a call that cannot be proved, and why."""
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
        hint=hint,
        digest=manifest.digest if manifest else "",
        bytes=manifest.length if manifest else 0,
        attested=_attested(info),
        prompt=prompt,
    )
