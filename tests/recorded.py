"""Where recorded session files lie, for tests that read what agents really wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CONVLOG_RECORDED", Path(__file__).resolve().parents[2] / "shared" / "data"))


def recorded(name: str) -> Path:
    """Give the path of a recorded file, or skip the test that asks for it."""
    path = FOLDER / name
    if not path.exists():
        pytest.skip(f"the recorded file {name} is not here (set CONVLOG_RECORDED to its folder)")
    return path
