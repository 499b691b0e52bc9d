"""What a mini-swe-agent trajectory states of its answers and commands: model, cost, and how a command ended."""

from __future__ import annotations

import re

import msgspec

from ..events import Facts, Source, ToolReturned, Usage
from .base import Response, is_name
from .slices import Fields, count_of, fields_of, name_of, value_of

_RETURN_CODE = re.compile(r"\s*(?:<exception>.*?</exception>\s*)?<returncode>(-?\d{1,9})</returncode>", re.DOTALL)


def settings_of(fields: Fields, *names: str) -> Fields | None:
    """Give an object that lies in objects of these names."""
    found: Fields | None = fields
    for name in names:
        found = fields_of((found or {}).get(name))
    return found


def source_of(info: Fields, raw: Fields) -> Source:
    """Name the model: by the response, else by the run's settings, which put the provider before it."""
    configured = name_of((settings_of(info, "config", "model") or {}).get("model_name")) or ""
    provider, _, rest = configured.partition("/")
    model = name_of(raw.get("model")) or rest or configured
    return Source(
        "model",
        provider=provider if rest and is_name(provider) else None,
        model=model if is_name(model) else None,
    )


def finished(id_: str, source: Source, raw: Fields, stop: str | None) -> Response:
    """Say what a response was; no turn ends with one, since the run does."""
    return Response(
        id=id_,
        provider=source.provider,
        model=source.model,
        usage=usage_of(fields_of(raw.get("usage"))),
        stop=stop,
        whole=True,
        goes_on=True,
    )


def with_outcome(body: ToolReturned, text: str, extra: Fields, command: str | None) -> ToolReturned:
    """Add what was stated of a command's run."""
    failure = value_of(extra.get("exception_info"))
    code = value_of(extra.get("returncode"))
    told = return_code(text)
    code = told if code is None else code
    exit_code = code if isinstance(code, int) and not isinstance(code, bool) and not failure else None
    facts = Facts(command=command, exit_code=exit_code, failed_command=command if exit_code else None)
    return msgspec.structs.replace(body, status="error" if failure else "ok", facts=None if facts == Facts() else facts)


def return_code(text: str) -> int | None:
    """Give the code with which an observation says that its command ended; None for any other text."""
    found = _RETURN_CODE.match(text)
    return None if found is None else int(found[1])


def usage_of(usage: Fields | None) -> Usage | None:
    """Read what a response cost, in the words of either of OpenAI's forms, whose input includes what was cached."""
    if not usage:
        return None
    told = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    produced = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    cached = count_of((fields_of(told) or {}).get("cached_tokens"))
    written = count_of(usage.get("cache_creation_input_tokens"))
    whole = count_of(usage.get("prompt_tokens") or usage.get("input_tokens"))
    return Usage(
        input=max(whole - cached - written, 0),
        cache_read=cached,
        cache_write=written,
        output=count_of(usage.get("completion_tokens") or usage.get("output_tokens")),
        reasoning=count_of((fields_of(produced) or {}).get("reasoning_tokens")),
    )
