"""Behind a proxy the engine, the program and our provider still talk to each other: they are on one machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engine.clone import Clone, said
from tests.engine.project import ROOT

NOBODY = "http://127.0.0.1:1"
ENTRY = "infra/providers/pulumi-resource-slipway"


def test_a_lower_case_proxy_that_nobody_answers_at_stops_no_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = Clone.make(tmp_path / "clone")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("https_proxy", "http_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, NOBODY)
    done = clone.pulumi("preview", "local", "--non-interactive", "--color", "never")
    assert done.returncode == 0, said(done)
    assert "grpc" not in said(done).lower()
    assert "to create" in done.stdout


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ""),
        ({"https_proxy": NOBODY}, "localhost,127.0.0.1,::1"),
        ({"grpc_proxy": NOBODY, "NO_PROXY": "corp"}, "corp,localhost,127.0.0.1,::1"),
        ({"https_proxy": NOBODY, "NO_PROXY": "corp", "no_proxy": "mine"}, "mine,localhost,127.0.0.1,::1"),
    ],
)
def test_our_provider_asks_no_proxy_for_its_engine_whoever_starts_it(
    tmp_path: Path, given: dict[str, str], expected: str
) -> None:
    entry, python = tmp_path / ENTRY, tmp_path / ".venv" / "bin" / "python"
    for path in (entry, python):
        path.parent.mkdir(parents=True)
    shutil.copy2(ROOT / ENTRY, entry)
    python.write_text('#!/bin/sh\nprintf %s "${no_proxy:-}"\n')
    python.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", **given}
    done = subprocess.run([entry, "127.0.0.1:1"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == expected
