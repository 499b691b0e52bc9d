"""Does a provider accept this request? An independent check of finished requests against the known refusals.

It reads a request as the provider would, by numbered rules (X for all formats, A, O, R, G, B for one each), and shares
no code with the assemblers and encoders that make requests. Rules speak of what a schema cannot say: order, pairing,
identity, emptiness, limits. What has the wrong type is passed over here; the providers' own types tell of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..profiles import Profile
from . import anthropic, bedrock, common, gemini, openai_chat, openai_responses
from .common import Finding

__all__ = ["RULES", "UNCHECKABLE", "Finding", "lint"]

_LINTERS = {
    "anthropic": anthropic.lint,
    "openai-chat": openai_chat.lint,
    "openai-responses": openai_responses.lint,
    "gemini": gemini.lint,
    "bedrock": bedrock.lint,
}
_MODULES = (common, anthropic, openai_chat, openai_responses, gemini, bedrock)

RULES: dict[str, str] = {rule: says for module in _MODULES for rule, says in module.RULES.items()}
"""Every rule by its id, with what is checked and, after "not seen", what a finished request cannot show."""

UNCHECKABLE: dict[str, str] = {rule: why for module in _MODULES for rule, why in module.UNCHECKABLE.items()}
"""The rules of which a finished request shows nothing, with the reason."""


def lint(request: Mapping[str, Any], profile: Profile) -> list[Finding]:
    """Give every breach in `request`, which is in the profile's `format`; none for a request that should be accepted.

    One mistake can break several rules: a lost result is X1 everywhere and A8, O1, R2 or G4 as well. Takes time linear
    in the size of the request.
    """
    return list(_LINTERS[profile.format](request, profile))
