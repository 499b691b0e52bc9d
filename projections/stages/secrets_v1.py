"""The exact secret filter of `turn-memory@6` (decision 1b): whole words with a value, and the shapes of known keys.

A word alone is no secret: `tokenizer.py`, `docs/token/` and `grep password` stay. `--token=abc`, `PASSWORD: abc`,
`--password abc`, `Bearer abc123` and `ghp_...` go, wherever they stand in a text.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

WITHHELD = "[withheld]"
"""What stands where a secret stood."""

_SECRET_ENDINGS = (
    "token",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "authorization",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "privatekey",
    "secretkey",
)
_KEY_OWNERS = frozenset({"access", "api", "auth", "encryption", "private", "secret", "signing"})

# `--token-file x`, `token_count=3`: what is said of a secret is none.
_ASPECTS = frozenset(
    (
        *("class", "count", "dir", "enabled", "env", "expiry", "field", "file", "format", "header", "id", "index"),
        *("length", "limit", "mode", "name", "path", "pattern", "policy", "required", "scheme", "size", "stdin"),
        *("store", "ttl", "type", "url", "version"),
    )
)

_HINT = re.compile(r"token|secret|pass|pwd|authorization|credential|key", re.IGNORECASE | re.ASCII)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VALUE = r"""(?P<value>\\?"[^"\r\n]+"|\\?'[^'\r\n]+'|[^ \t\r\n"'&;,|<>(){}\[\]=:][^ \t\r\n"'&;,|<>]*)"""
_ASSIGNED = re.compile(
    rf"(?<![A-Za-z0-9_-])(?<!://)(?P<name>[A-Za-z0-9_-]+)\\?[\"']?[ \t]*(?:=(?![=~])>?|:(?![:/]))[ \t]*"
    rf"(?:(?i:bearer|basic)[ \t]+)?{_VALUE}",
    re.ASCII,
)
_FLAG = re.compile(rf"(?:^|(?<=[ \t\n]))--?(?P<name>[A-Za-z][A-Za-z0-9_-]*)[ \t]+(?!-){_VALUE}", re.ASCII)

_KEY_SHAPES = (
    r"sk-[A-Za-z0-9_-]{16,}",
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{10,}",
    r"gh[oprsu]_[A-Za-z0-9]{16,}",
    r"github_pat_[A-Za-z0-9_]{16,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abeprs]-[A-Za-z0-9-]{8,}",
    r"hf_[A-Za-z0-9]{16,}",
    r"npm_[A-Za-z0-9]{20,}",
    r"pypi-[A-Za-z0-9_-]{20,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{20,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"(?:[Bb]earer|[Bb]asic)[ \t]+(?=[A-Za-z._~+/-]*[0-9=])[A-Za-z0-9._~+/-]{8,}=*",
    r"sshpass[ \t]+-p[ \t]*[^ \t\r\n]+",
    r"curl[ \t](?:[^|;&\r\n]{0,200}?[ \t])?(?:-u|--user)[ \t=]*[^ \t\r\n:]+:[^ \t\r\n]+",
)
_SHAPES = re.compile(
    rf"(?<![A-Za-z0-9])(?:{'|'.join(_KEY_SHAPES)})"
    r"|(?<=://)[^/@: \t\r\n]*:[^/@ \t\r\n]+(?=@)"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?:(?!-----END)[^\0])*",
    re.ASCII,
)


def has_secret(text: str) -> bool:
    """Tell whether the text carries a secret."""
    return next(_spans(text), None) is not None


def withhold(text: str) -> str:
    """Put `[withheld]` in the place of every secret of a text."""
    parts: list[str] = []
    end = 0
    for start, stop in sorted(_spans(text)):
        if start >= end:
            parts += text[end:start], WITHHELD
        end = max(end, stop)
    return "".join([*parts, text[end:]])


def _spans(text: str) -> Iterator[tuple[int, int]]:
    for found in _SHAPES.finditer(text):
        yield found.span()
    if _HINT.search(text):
        for pattern in (_ASSIGNED, _FLAG):
            for found in pattern.finditer(text):
                if _names_secret(found["name"]):
                    yield found.span("value")


def _names_secret(name: str) -> bool:
    """Tell whether a name is that of a secret: `dbPassword`, `GITHUB_TOKEN`, `api-key`; not `token_count`."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _ASPECTS:
        return False
    pairs = pairwise(words)
    return any(word.endswith(_SECRET_ENDINGS) for word in words) or any(
        owner in _KEY_OWNERS and word in ("key", "keys") for owner, word in pairs
    )
