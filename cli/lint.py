"""`convlog lint`: would the provider accept this request? Anyone's, from a file, or the one that an address names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .shell import Shell
from .text import counted, visible_line

if TYPE_CHECKING:
    from convlog.projections.profiles import Profile

SCHEMA = "lint/1"
STDIN = "-"


@click.command()
@click.argument("request", metavar="FILE|ADDRESS|-")
@click.option("--encoder", metavar="NAME@V", help="Whose format the request is in; for an address, who makes it.")
@click.option(
    "--profile", "profile_id", metavar="ID", help="The model to judge for, or a file (default: the request's own)."
)
@click.option("--as", "assembler", metavar="NAME@V", help="Derive an address's prompt by another assembler.")
@click.pass_context
def command(
    ctx: click.Context, *, request: str, encoder: str | None, profile_id: str | None, assembler: str | None
) -> None:
    """Check a request against the rules that providers refuse requests by.

    A file (or - for stdin) holds the JSON of one request, whoever made it, and needs --encoder. An address names a
    prompt: THREAD/5 a call's, THREAD:17 the one that would be due there. The rules are those of docs/providers.md, by
    their numbers. Exit code 1 where one is broken.
    """
    shell: Shell = ctx.obj
    if request == STDIN or Path(request).is_file():
        if encoder is None:
            raise click.UsageError("a file needs --encoder NAME@V, such as anthropic@1: whose format it is in")
        if assembler is not None:
            raise click.UsageError("--as goes with an address")
        value = _read(request)
        profile = _profile(value, encoder, profile_id)
    else:
        value, profile = _derive(shell, request, assembler, encoder, profile_id)
    if _write(shell, value, profile):
        ctx.exit(1)


# --- the request, and the model that it is judged for ---


def _read(path: str) -> dict[str, Any]:
    """Read a request's JSON, leniently: what JSON should not hold is the rules' business.

    Raises:
        PayloadRejected: no JSON object.
    """
    import json

    from convlog.eventstore.errors import PayloadRejected

    data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise PayloadRejected(f"{path} holds no JSON: {error}", hint="give the body of one request") from None
    if not isinstance(value, dict):
        raise PayloadRejected(f"{path} holds a {type(value).__name__}", hint="give the body of one request, an object")
    return value


def _derive(
    shell: Shell, address: str, assembler: str | None, encoder: str | None, profile_id: str | None
) -> tuple[dict[str, Any], Profile]:
    import msgspec

    from convlog.projections.profiles import load_profile

    from .prompts import named

    with shell.open() as store:
        prompt = named(store, address, assembler, encoder).prompt
        profile = load_profile(prompt.recipe.profile if profile_id is None else profile_id)
        return msgspec.json.decode(prompt.body), _in_format(profile, prompt.recipe.encoder)


def _profile(request: dict[str, Any], encoder: str, profile_id: str | None) -> Profile:
    """Give the profile that is named, or the bundled one of the model that the request names."""
    from convlog.projections import registry
    from convlog.projections.profiles import bundled_profiles, load_profile

    registry.get(encoder, "encoder")
    if profile_id is not None:
        return _in_format(load_profile(profile_id), encoder)
    model = request.get("model", request.get("modelId"))
    offered = [found for name in bundled_profiles() if _format(encoder) in (found := load_profile(name)).formats]
    profile = next((found for found in offered if found.model == model), None)
    if profile is None:
        names = ", ".join(found.id for found in offered) or "a file"
        said = "no model" if model is None else f"the model {model!r}, which is not known"
        raise click.UsageError(f"the request names {said}: say which to judge it for by --profile ({names})")
    return _in_format(profile, encoder)


def _in_format(profile: Profile, encoder: str) -> Profile:
    """Give a profile in an encoder's format; a user's encoder makes what its profile says."""
    from convlog.projections import registry

    return profile.in_format(_format(encoder)) if encoder in registry.OWN else profile


def _format(encoder: str) -> str:
    return encoder.split("@", maxsplit=1)[0]


# --- what is found ---


def _write(shell: Shell, request: dict[str, Any], profile: Profile) -> int:
    """Write the findings; give their count."""
    from convlog.projections.lint import RULES, lint

    findings = lint(request, profile)
    for found in findings:
        if shell.as_json:
            shell.emit(
                SCHEMA,
                rule=found.rule,
                says=RULES[found.rule],
                pointer=found.pointer,
                message=found.message,
                format=profile.format,
                profile=profile.id,
            )
        else:
            rule = shell.paint(f"{found.rule:<4}", fg="red", bold=True)
            shell.write(f"{rule} {visible_line(found.pointer or '/')}  {visible_line(found.message)}")
    word = counted(len(findings), "finding") if findings else "ok"
    shell.say(f"{word}  {profile.format} for {visible_line(profile.id)}")
    return len(findings)
