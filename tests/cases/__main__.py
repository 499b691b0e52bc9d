"""`python -m tests.cases PATH...`: run case files, say what passed, what failed, and what waits for a later build."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from .runner import NotYet, run_case


def files(paths: list[str]) -> list[Path]:
    """Give the case files of some paths, folders opened."""
    found: list[Path] = []
    for name in paths:
        path = Path(name)
        found.extend(sorted(path.glob("*.json")) if path.is_dir() else [path])
    return found


def main(paths: list[str]) -> int:
    """Run all; give the exit code."""
    passed = failed = waiting = 0
    for path in files(paths):
        case = json.loads(path.read_text())
        for each in case.get("cases", [case]):
            try:
                failures = run_case(each)
            except NotYet as error:
                waiting += 1
                print(f"not yet: {each['id']} ({error})")
                continue
            except Exception as error:  # noqa: BLE001 - a case that breaks the runner has failed, the others go on
                failures = [f"{type(error).__name__}: {error}"]
            if failures:
                failed += 1
                print(f"FAILED {each['id']}: {each.get('why', '')}")
                for failure in failures:
                    print(f"    {failure}")
            else:
                passed += 1
    if waiting:
        print(f"{waiting} not yet")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed + waiting else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
