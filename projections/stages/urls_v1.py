"""Cleaning of addresses: user info, query and fragment go, port and escapes stay (K14).

What counts as an address, and how odd characters are escaped, is what Go's net/url did for the source.
"""

import re
from typing import NamedTuple

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_USER_INFO = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_PORT = re.compile(r"(?::[0-9]*)?")
# In a host only bytes above 0x7F, and the percent sign itself, may be escaped.
_HOST = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:\[\]<>\"-]|[^\x00-\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])+")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@\[\]/%-]*")

_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
_PLAIN_IN_HOST = frozenset(_UNRESERVED + b"!$&'()*+,;=:[]<>\"")
_PLAIN_IN_PATH = frozenset(_UNRESERVED + b"$&+,/:;=@")

_WEB_ADDRESS = re.compile(r"[Hh][Tt][Tt][Pp][Ss]?://[^\x00-\x20\x7f\u0085\u00a0\u2028\u2029\u3000\"'`<>]+")


class _Address(NamedTuple):
    scheme: str
    host: str
    path: str
    bare_query: bool

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}"


def clean(raw: str) -> str:
    """Clean an address, "" when it is none; a bare `?` at its end stays (K14, Q1)."""
    address = _parse(raw)
    return "" if address is None else f"{address}?" if address.bare_query else str(address)


def clean_wholly(raw: str) -> str:
    """Clean an address, "" when it is none; nothing of the query stays, not even its mark (decision 1d)."""
    address = _parse(raw)
    return "" if address is None else str(address)


def first_web_address(text: str) -> str:
    """Find the first http or https address in a text, "" when there is none."""
    found = _WEB_ADDRESS.search(text)
    return found[0].rstrip(".,;:!?)]}") if found else ""


def _parse(raw: str) -> _Address | None:
    head, _, fragment = raw.partition("#")
    found = _SCHEME.fullmatch(head)
    if found is None or _CONTROL.search(head) or _BAD_ESCAPE.search(fragment):
        return None
    scheme, rest = found.groups()
    bare_query = rest.endswith("?") and rest.count("?") == 1
    rest = rest.partition("?")[0]
    if not rest.startswith("//"):
        return None
    authority, slash, path = rest[2:].partition("/")
    host = _host(authority)
    if not host or _BAD_ESCAPE.search(path):
        return None
    return _Address(scheme.lower(), host, _path(slash + path), bare_query)


def _host(authority: str) -> str:
    """Check user info, host and port; answer with host and port, "" when they are wrong or missing."""
    user_info, _, host = authority.rpartition("@")
    if not _USER_INFO.fullmatch(user_info) or _BAD_ESCAPE.search(user_info):
        return ""
    start = host.rfind("]") + 1 if host.startswith("[") else host.rfind(":")
    if host.startswith("[") and not start:
        return ""
    port = host[start:] if start >= 0 else ""
    if not _PORT.fullmatch(port) or not _HOST.fullmatch(host):
        return ""
    return _escaped(_unescaped(host), _PLAIN_IN_HOST)


def _path(path: str) -> str:
    """Keep a path as it is written, unless it holds a character that must be escaped: then escape it anew."""
    return path if _PATH.fullmatch(path) else _escaped(_unescaped(path), _PLAIN_IN_PATH)


def _unescaped(text: str) -> bytes:
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), text.encode())


def _escaped(data: bytes, plain: frozenset[int]) -> str:
    return "".join(chr(byte) if byte in plain else f"%{byte:02X}" for byte in data)
