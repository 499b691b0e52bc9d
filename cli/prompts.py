"""What commands about prompts share: the call, or the hypothetical prompt, that an address names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from convlog.projections.conversation import Store, Thread
    from convlog.projections.derive import Derived, Recipe


class Named:
    """The prompt that an address names: of a call, or as it would be at a node."""

    def __init__(self, thread: Thread, prompt: Derived, leaf: int, at: int, label: str) -> None:
        self.thread = thread
        self.prompt = prompt
        self.leaf = leaf
        self.at = at
        self.label = label


def named(store: Store, address: str, assembler: str | None = None, encoder: str | None = None) -> Named:
    """Derive the prompt that an address names: THREAD/5 a call's, THREAD:17 and THREAD@branch the one due there.

    Raises:
        NotDerivable: it cannot be derived.
    """
    from convlog.eventstore.addresses import resolve
    from convlog.projections.calls import call
    from convlog.projections.errors import NotDerivable
    from convlog.projections.material import derived
    from convlog.projections.replay import replay_call

    target = resolve(store, address)
    thread = store.thread(target.thread.id)
    number = target.address.call
    if number is None and target.position is None:
        number = len(thread.calls()) or None
    if number is not None:
        replayed = replay_call(thread, call(thread, number), assembler=assembler, encoder=encoder)
        if replayed.prompt is None:
            raise NotDerivable(
                f"call {number}: {replayed.reason}: {replayed.detail}", reason=replayed.reason, hint=replayed.hint
            )
        return Named(thread, replayed.prompt, replayed.node, replayed.at, f"{thread.id[:8]}/{number}")
    leaf = target.leaf
    prompt = derived(thread, _recipe(thread, assembler, encoder), leaf, thread.position)
    return Named(thread, prompt, leaf, thread.position, f"{thread.id[:8]}:{leaf}")


def _recipe(thread: Thread, assembler: str | None, encoder: str | None) -> Recipe:
    """Give the recipe of a prompt that is due: that of the thread's last prepared call, where there is one."""
    from convlog.projections.replay import imported_recipe, recipe_of, varied

    manifest = thread.last_manifest()
    if manifest is None:
        return imported_recipe(assembler, encoder)
    return varied(recipe_of(thread, manifest), assembler, encoder)
