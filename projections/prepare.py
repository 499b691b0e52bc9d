"""Preparing a prompt: derive it from one snapshot, and record what went in and the digest of what came out."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from blake3 import blake3

from convlog.eventstore.errors import ConvlogError, PayloadRejected
from convlog.eventstore.events import CallPrepared
from convlog.eventstore.records import Draft

from . import derive, registry
from .approvals import open_approval
from .defaults import DEFAULT_ASSEMBLER, DEFAULT_MODEL
from .errors import AwaitingApproval, BadProjection, NoSuchProjection, NotDerivable
from .freeze import fingerprint
from .generation import GENERATION, generation
from .material import derived, material
from .profiles import Profile, load_profile, profile_bytes
from .stages.pieces_v1 import DROPPED, Piece
from .stages.target_v1 import Options
from .standing import Instructions, Tools, as_json, differing

if TYPE_CHECKING:
    from .conversation import Thread

ESTIMATOR = "est:bytes4/1"
"""Tokens are estimated as a quarter of the UTF-8 bytes, rounded up."""

KEY_BYTES = 32
AMBER = 2 / 3
RED = 0.9


class Gauge(msgspec.Struct, frozen=True):
    """How full the model's window is (S25), before anything is sent."""

    tokens: int
    budget: int
    share: float
    level: str
    """green, amber from two thirds, red at 90 %."""


class Prompt:
    """One prepared prompt."""

    def __init__(self, derived: derive.Derived, profile: Profile, leaf: int, at: int) -> None:
        self.derived = derived
        self.profile = profile
        self.leaf = leaf
        self.at = at
        self.call: int | None = None
        """Position of the manifest; None when the prompt was not recorded."""
        self.losing: tuple[int, ...] = ()
        """Nodes of which the call before said something and this one says nothing."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """What the prompt is made of, in order, each with its provenance."""
        return self.derived.pieces

    @property
    def repairs(self) -> Sequence[Piece]:
        """What the encoder had to mend or leave out."""
        return self.derived.request.repairs

    @property
    def body(self) -> bytes:
        """The bytes of the request: what the digest is of."""
        return self.derived.body

    @cached_property
    def request(self) -> dict[str, Any]:
        """The request as plain Python, for an SDK's keyword arguments."""
        value: dict[str, Any] = msgspec.json.decode(self.body)
        return value

    @property
    def estimate(self) -> int:
        """Tokens, estimated (`est:bytes4/1`)."""
        return -(-self.derived.length // 4)

    @property
    def gauge(self) -> Gauge:
        """How full the window is."""
        budget = max(1, self.profile.context_tokens - self.profile.output_tokens_max)
        share = self.estimate / budget
        level = "red" if share >= RED else "amber" if share >= AMBER else "green"
        return Gauge(self.estimate, budget, share, level)

    @property
    def warning(self) -> str | None:
        """What is about to be lost to the model, in words; None when nothing is."""
        if not self.losing:
            return None
        nodes = "1 node" if len(self.losing) == 1 else f"{len(self.losing):,} nodes"
        return f"this call no longer carries {nodes} of which the call before said something"


def prepare(
    thread: Thread,
    *,
    assembler: str = DEFAULT_ASSEMBLER,
    encoder: str | None = None,
    model: str = DEFAULT_MODEL,
    profile: str | Path | bytes | None = None,
    options: Options | dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
    instructions: Instructions | None = None,
    tools: Tools | None = None,
    leaf: int | None = None,
    record: bool = True,
    capture: bool = False,
    despite_approval: bool = False,
) -> Prompt:
    """Derive the prompt at the head (or `leaf`), and record its manifest.

    Args:
        thread: the conversation.
        assembler: what selects the pieces, `name@version`.
        encoder: what makes the request, `name@version`; default: the newest of the profile's format.
        model: id of a bundled profile.
        profile: a profile's id, file or bytes, in place of `model`.
        options: max_tokens, tool choice, thinking and further members of the request.
        parameters: the assembler's parameters.
        instructions: what the agent is told before the talk; recorded at the head when other than what is in force.
        tools: the tools that it is offered; recorded likewise.
        leaf: the node to prepare at; default: the head.
        record: whether to append the manifest (`call.prepared`).
        capture: whether to keep the rendered bytes as an attachment.
        despite_approval: prepare although an approval is open at the leaf.

    Raises:
        AwaitingApproval: the leaf waits for a decision.
        NotDerivable: something that the prompt needs was never kept, or is gone.
        NoSuchProjection, BadProjection, UnknownProfile, FormatRefused: the recipe names what is not there.
        PayloadRejected: other instructions or tools than those in force, where nothing is to be recorded at the head.
    """
    data = _profile_bytes(model if profile is None else profile)
    target = load_profile(data)
    recipe = _recipe(assembler, encoder or newest_encoder(target.format), data, parameters, options)
    _check_encoder(recipe.encoder, target)
    given = instructions, tools
    while True:
        found = _attempt(
            thread, recipe, target, leaf, given, record=record, capture=capture, despite_approval=despite_approval
        )
        if found is not None:
            return found


def _attempt(
    thread: Thread,
    recipe: derive.Recipe,
    target: Profile,
    leaf: int | None,
    given: tuple[Instructions | None, Tools | None],
    *,
    record: bool,
    capture: bool,
    despite_approval: bool,
) -> Prompt | None:
    """Prepare a prompt; None when something was erased meanwhile, anywhere: then it may hold what is gone."""
    since = generation(thread.store, thread.id)
    with thread.store.mutex:
        thread.refresh()
        node = thread.head if leaf is None else thread.tree.require(leaf)
        if not despite_approval:
            _check_approval(thread, node)
        _set_standing(thread, node, *given, may_append=record and leaf is None)
        at = thread.position
        leaf = thread.head if leaf is None else leaf
    prompt = _prompt(thread, recipe, target, leaf, at)
    if not record:
        return prompt
    with thread.store.alone():
        if generation(thread.store, thread.id) != since:
            return None
        prompt.call = _record(thread, prompt, capture=capture)
    _keep(thread, recipe, prompt.derived, since)
    return prompt


def _keep(thread: Thread, recipe: derive.Recipe, prompt: derive.Derived, since: bytes | None) -> None:
    """Keep for other processes what the next prompt goes on from."""
    # It can be made again: neither want of room nor a deletion meanwhile is the caller's trouble.
    with suppress(ConvlogError):
        thread.store.live.recorded(thread, recipe, prompt)
        if since is not None:
            thread.store.log(thread.id).keep_tree((GENERATION, since))


def _prompt(thread: Thread, recipe: derive.Recipe, target: Profile, leaf: int, at: int) -> Prompt:
    """Derive a prompt, going on from the last one of this thread where that can be."""
    at_head = leaf == thread.head and at == thread.position
    if at_head:
        _go_back(thread, recipe, leaf)
    found = thread.store.live.derive(thread, recipe, leaf, at) if at_head else None
    if found is None:
        prompt = Prompt(derived(thread, recipe, leaf, at), target, leaf, at)
        prompt.losing = _losing(thread, prompt)
        return prompt
    prompt = Prompt(found[0], target, leaf, at)
    prompt.losing = _losing(thread, prompt) if found[0].losing is None else found[0].losing
    return prompt


def _go_back(thread: Thread, recipe: derive.Recipe, leaf: int) -> None:
    """Where no prompt is at hand to go on from, derive the last recorded one, if it was made so and on this path."""
    from .replay import recipe_of

    live = thread.store.live
    if live.get(thread, recipe) is not None or (last := thread.last_manifest()) is None:
        return
    try:
        if recipe_of(thread, last) == recipe and thread.tree.is_above(last.leaf, leaf):
            found = live.derive(thread, recipe, last.leaf, last.at)
            if found is not None:
                found[1].recorded(found[0])
    except (NotDerivable, NoSuchProjection):
        return


def newest_encoder(format_: str) -> str:
    """Give the newest encoder of a wire format."""
    versions = [int(address.split("@")[1]) for address in registry.OWN if address.startswith(f"{format_}@")]
    if not versions:
        raise BadProjection(f"no encoder for the format {format_}")
    return f"{format_}@{max(versions)}"


def _profile_bytes(source: str | Path | bytes) -> bytes:
    if isinstance(source, bytes):
        return source
    if isinstance(source, Path) or source.endswith(".json") or "/" in source or "\\" in source:
        load_profile(source)
        return Path(source).read_bytes()
    return profile_bytes(source)


def _recipe(
    assembler: str,
    encoder: str,
    profile: bytes,
    parameters: dict[str, Any] | None,
    options: Options | dict[str, Any] | None,
) -> derive.Recipe:
    return derive.Recipe(assembler, encoder, profile, _parameters(assembler, parameters), _options(options))


def _options(given: Options | dict[str, Any] | None) -> Options:
    if isinstance(given, Options):
        return given
    try:
        return msgspec.convert(given or {}, Options)
    except msgspec.ValidationError as error:
        raise PayloadRejected(f"options: {error}", hint=f"known: {', '.join(Options.__struct_fields__)}") from None


def _check_encoder(encoder: str, profile: Profile) -> None:
    """Refuse a wire format that the provider does not offer the model in; a user's encoder is asked nothing."""
    registry.get(encoder, "encoder")
    if encoder in registry.OWN:
        profile.in_format(encoder.split("@", maxsplit=1)[0])


def _set_standing(
    thread: Thread, node: int, instructions: Instructions | None, tools: Tools | None, *, may_append: bool
) -> None:
    """Append what differs from what is in force at a node."""
    bodies = differing(thread, node, instructions, tools)
    if bodies and not may_append:
        raise PayloadRejected(
            f"{' and '.join(body.TYPE for body in bodies)} would have to be recorded first",
            hint="prepare at the head and with record=True, or leave out instructions and tools",
        )
    if bodies:
        thread.append_many([Draft(body=body) for body in bodies])


def _parameters(assembler: str, given: dict[str, Any] | None) -> str:
    found = registry.get(assembler, "assembler")
    parameters = registry.parameters_of(found, given)
    return "{}" if parameters is None else as_json(parameters)


def _check_approval(thread: Thread, leaf: int) -> None:
    position = open_approval(thread, leaf)
    if position is not None:
        raise AwaitingApproval(
            f"position {position} asks for an approval that nobody answered",
            hint="append approval.answered, or prepare with despite_approval=True",
        )


# --- the manifest ---


def _record(thread: Thread, prompt: Prompt, *, capture: bool) -> int:
    key = thread.store.entropy(KEY_BYTES)
    derived_prompt, recipe = prompt.derived, prompt.derived.recipe
    store = thread.store
    body = CallPrepared(
        assembler=recipe.assembler,
        encoder=recipe.encoder,
        leaf=prompt.leaf,
        at=prompt.at,
        length=derived_prompt.length,
        blocks=derived_prompt.count,
        digests=derived_prompt.digests(key),
        digest=derived_prompt.digest(key),
        digest_key_hash=blake3(key).hexdigest(),
        profile=store.attach(recipe.profile),
        parameters=recipe.parameters,
        options=as_json(recipe.options),
        inputs=((thread.id, prompt.at, thread.hash_at(prompt.at).hex()),),
        ranges=tuple((first, last) for _, first, last in thread.tree.runs(prompt.leaf)),
        fingerprint=fingerprints(recipe),
        distributions=distributions(recipe),
        runtime=runtime(),
        capture=store.attach(prompt.body) if capture else None,
    )
    return thread.append_many([Draft(body=body, secret=key, refs=(("about", prompt.leaf),))])[0].position


def fingerprints(recipe: derive.Recipe) -> str:
    """Give the fingerprints of a recipe's versions, assembler first."""
    return f"{fingerprint(recipe.assembler)} {fingerprint(recipe.encoder)}"


def runtime() -> str:
    """Give the versions that a derivation ran under (a note: nothing depends on them)."""
    return f"python {platform.python_version()} msgspec {msgspec.__version__}"


def distributions(recipe: derive.Recipe) -> dict[str, str]:
    """Give `name==version` of the packages that a recipe's versions come from, our own left out."""
    found = {}
    for address in (recipe.assembler, recipe.encoder):
        distribution = registry.get(address).distribution
        if distribution is not None:
            found[address] = distribution
    return found


def said_nodes(pieces: Sequence[Piece]) -> set[int]:
    """Give the positions of the events that a prompt says something of."""
    return {position for piece in pieces if piece.provenance != DROPPED for position in piece.sources}


def _losing(thread: Thread, prompt: Prompt) -> tuple[int, ...]:
    """Give the nodes on this path of which the last recorded call said something and this prompt says nothing."""
    from .replay import recipe_of

    last = thread.last_manifest()
    if last is None:
        return ()
    try:
        before = derive.assemble(material(thread, last.leaf, last.at), recipe_of(thread, last))
    except (NotDerivable, NoSuchProjection):
        return ()
    lost = said_nodes(before) - said_nodes(prompt.pieces)
    return tuple(sorted(position for position in lost if thread.tree.is_above(position, prompt.leaf)))
