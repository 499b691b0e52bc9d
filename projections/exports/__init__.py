"""Threads in forms that other programs take: one file a form, each a pure function of a thread's events.

A form's module has `export(thread, leaf)`, which gives the file's bytes in parts. Without a leaf a form that is a tree
has the whole one, and any other the active path; with one, each has the path to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from convlog.eventstore.thread import Thread

    Exporter = Callable[[Thread, int | None], Iterator[bytes]]


class Form(NamedTuple):
    """One form."""

    module: str
    suffixes: tuple[str, ...]
    """How names of its files end."""
    says: str
    """What it is, in a few words."""


EXPORTS: dict[str, Form] = {
    "markdown": Form("markdown", (".md", ".markdown"), "a page to read, with all branches"),
    "atif": Form("atif", (".atif.json",), "an Agent Trajectory Interchange Format document"),
    "openai-chat": Form("openai_chat", (".openai.json",), "messages of OpenAI's chat form"),
    "anthropic": Form("anthropic", (".anthropic.json",), "messages of Anthropic's form"),
    "otel": Form("otel", (".otlp.json", ".otel.json"), "spans of OpenTelemetry's conventions for generative AI"),
    "claude-code": Form("claude_code", (".claude-code.jsonl",), "a Claude Code session"),
    "codex": Form("codex", (".codex.jsonl",), "a Codex rollout"),
    "pi": Form("pi", (".pi.jsonl",), "a pi session"),
    "chatgpt": Form("chatgpt", (".chatgpt.json",), "a ChatGPT conversation"),
}
"""All forms, by the name that commands know them by."""


def exporter(name: str) -> Exporter:
    """Give a form's function.

    Raises:
        KeyError: there is no such form.
    """
    function: Exporter = import_module(f".{EXPORTS[name].module}", __name__).export
    return function


def form_of(file_name: str) -> str | None:
    """Give the form that a file's name asks for; the longest suffix counts, and None where none fits."""
    lowered = file_name.lower()
    found = [
        (len(suffix), name) for name, form in EXPORTS.items() for suffix in form.suffixes if lowered.endswith(suffix)
    ]
    return max(found)[1] if found else None
