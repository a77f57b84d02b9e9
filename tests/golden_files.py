"""Golden files: text that is reviewed like code, in tests/golden/. SLIPWAY_GOLDEN=1 rewrites what a test compares."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).with_name("golden")


def check_golden(name: str, text: str) -> None:
    """The text is the file's, to the last character."""
    path = GOLDEN / name
    if os.environ.get("SLIPWAY_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    there = path.read_text() if path.exists() else ""
    assert text == there, f"tests/golden/{name} says otherwise; if the change is meant: SLIPWAY_GOLDEN=1 pytest"
