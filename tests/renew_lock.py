"""Renews the lock of frozen versions: `python -m tests.renew_lock`.

Before the first release that takes a line in CHANGELOG. After it a version keeps what the lock says; what should come
out otherwise is a new version. With `--check` it only says what changed, and ends with 1 when something did.
"""

from __future__ import annotations

import sys

import msgspec

from convlog.projections import freeze, registry
from tests.frozen import outputs


def current() -> dict[str, freeze.Locked]:
    """Give what a lock would say now of every version of ours."""
    return {address: freeze.Locked(freeze.fingerprint(address), outputs(address)) for address in sorted(registry.OWN)}


def changes(then: dict[str, freeze.Locked], now: dict[str, freeze.Locked]) -> list[str]:
    """Say in words what is otherwise than the lock has it."""
    found = []
    for address in sorted(then.keys() | now.keys()):
        before, after = then.get(address), now.get(address)
        if before is None or after is None:
            found.append(f"{address}: {'new' if before is None else 'gone'}")
        elif before.outputs != after.outputs:
            found.append(f"{address}: its results moved")
        elif before.source != after.source:
            found.append(f"{address}: its source was touched, its results are the same")
    return found


def written(now: dict[str, freeze.Locked]) -> bytes:
    """Give the lock as it lies in its file."""
    return msgspec.json.format(msgspec.json.encode(now, order="sorted"), indent=1) + b"\n"


def main(arguments: list[str]) -> int:
    """Renew the lock, or check it; say what changed."""
    now = current()
    changed = changes(freeze.lock(), now)
    print("\n".join(changed) or "nothing changed")
    if "--check" in arguments:
        return int(bool(changed))
    freeze.LOCK.write_bytes(written(now))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
