"""Steps of these tests: a file to put, the sentence of what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infra.artifacts.store import StoreError

BIG = 20 << 20  # above what the client sends in one piece, and above one chunk


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(call: Callable[[], object]) -> str:
    """The sentence; one line, and none of Google's class names."""
    with pytest.raises(StoreError) as caught:
        call()
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "google.api_core" not in sentence
    return sentence
