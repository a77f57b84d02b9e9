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


def check_golden_section(name: str, key: str, text: str) -> None:
    """The text is that of the key's section: a line that begins with the key, and the indented lines after it."""
    path = GOLDEN / name
    sections: dict[str, str] = {}
    for line in path.read_text().splitlines(keepends=True):
        head = next(reversed(sections)) if line.startswith(" ") else line.partition(":")[0]
        sections[head] = sections.get(head, "") + line
    if os.environ.get("SLIPWAY_GOLDEN"):
        sections[key] = text
        path.write_text("".join(sections.values()))
    assert text == sections.get(key), f"tests/golden/{name} says otherwise of {key}; if it is meant: make golden"
