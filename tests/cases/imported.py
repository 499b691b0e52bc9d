"""Import reports, as cases count them."""

from __future__ import annotations

from typing import Any

COUNTS = (
    "messages",
    "user_messages",
    "harness_messages",
    "model_messages",
    "reasoning",
    "tool_calls",
    "tool_results",
    "lost",
)
USAGE = {
    "input_tokens": "input",
    "output_tokens": "output",
    "cache_read_input_tokens": "cache_read",
    "cache_creation_input_tokens": "cache_write",
}
"""Providers' words for the four classes."""


def totals(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum the reports of a case."""
    found: dict[str, Any] = {name: sum(report.get(name, 0) for report in reports) for name in COUNTS}
    found["messages"] = found["user_messages"] + found["model_messages"]
    found["threads"] = len({thread for report in reports for thread in report.get("thread_ids", ())})
    usage: dict[str, int] = {}
    for report in reports:
        for name, count in (report.get("usage") or {}).items():
            usage[name] = usage.get(name, 0) + count
    found["usage"] = {**usage, **{theirs: usage.get(ours, 0) for theirs, ours in USAGE.items()}}
    found["usage"]["total"] = sum(usage.get(name, 0) for name in ("input", "cache_read", "cache_write", "output"))
    return found


def warnings(reports: list[dict[str, Any]], wanted: dict[str, Any]) -> bool:
    """Whether some report has a warning of this code at this line, or about this id."""
    for report in reports:
        for warning in report.get("warnings", ()):
            if warning["code"] != wanted["code"]:
                continue
            if "line" in wanted and warning["line"] != wanted["line"]:
                continue
            if "id" in wanted and str(wanted["id"]) not in warning.get("detail", ""):
                continue
            return True
    return False
