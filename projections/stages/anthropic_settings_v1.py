"""Thinking and tool choice of a Messages request, as the model accepts them (A31, A32, A33)."""

from __future__ import annotations

from typing import Any

from .repairs_v1 import Repairs
from .target_v1 import Options, Target

BUDGET_MIN = 1024

DISABLED = {"type": "disabled"}


def thinking(options: Options, target: Target, repairs: Repairs) -> dict[str, Any] | None:
    """Give the thinking setting that goes out; None where the request says nothing."""
    asked = options.thinking
    if asked is None:
        return None
    kind = asked.get("type")
    if kind not in target.thinking:
        kind = next((each for each in target.thinking if each != "disabled"), None) if kind != "disabled" else None
        repairs.add("system", "thinking", f"A31: {asked.get('type')} is refused, {kind or 'nothing'} in its place")
        if kind is None:
            return None
        asked = {name: value for name, value in asked.items() if name not in {"type", "budget_tokens"}}
        asked = {"type": kind, **asked}
    return _budgeted(asked, options.max_tokens or target.output_tokens_max, repairs) if kind == "enabled" else asked


def _budgeted(asked: dict[str, Any], max_tokens: int, repairs: Repairs) -> dict[str, Any]:
    """A32: at least 1024 and below max_tokens, or no thinking."""
    budget = asked.get("budget_tokens")
    wanted = budget if isinstance(budget, int) else max_tokens // 2
    given = min(max(wanted, BUDGET_MIN), max_tokens - 1)
    if given < BUDGET_MIN:
        repairs.add("system", "thinking", f"A32: max_tokens {max_tokens} leaves no room for thinking")
        return DISABLED
    if given != budget:
        repairs.add("system", "thinking", f"A32: budget_tokens {given} in place of {budget}")
    return {**asked, "budget_tokens": given}


def is_on(setting: dict[str, Any] | None, target: Target) -> bool:
    """Say whether the model thinks under a setting."""
    return target.thinks_by_default if setting is None else setting.get("type") != "disabled"


def tool_choice(
    options: Options, target: Target, name: str | None, repairs: Repairs, *, thinks: bool
) -> dict[str, object] | None:
    """Give the tool choice that goes out; `name` is the wire name of the tool that is asked for, if it is declared."""
    choice, parallel = options.tool_choice, options.parallel_tools
    if choice is None and parallel is None:
        return None
    if choice in {None, "auto", "any", "none"}:
        value: dict[str, object] = {"type": choice or "auto"}
    elif name is not None:
        value = {"type": "tool", "name": name}
    else:
        repairs.add("system", choice or "", "the tool that is chosen is not declared")
        value = {"type": "auto"}
    if thinks and target.forced_choice_refused_with_thinking and value["type"] in {"any", "tool"}:
        repairs.add("system", choice or "", "A33: no forced choice while the model thinks")
        value = {"type": "auto"}
    if parallel is False and value["type"] != "none":
        value["disable_parallel_tool_use"] = True
    return value
