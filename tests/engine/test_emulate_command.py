"""`slipway emulate tpu`: what the README says anyone can try without an account, as it says it."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.engine.clone import Clone, said

STACK = "v6e-8.try"


@contextlib.contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """Whatever fails meanwhile."""
    with process:
        try:
            yield
        finally:
            process.kill()


def test_up_preemption_recovery_and_destroy_without_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = Clone.make(tmp_path / "clone")
    new = "stack new v6e-8 --variant try --tier spot --project try-it --zone us-east5-b --zone us-east5-a"
    written = clone.run("slipway", *new.split())
    assert written.returncode == 0, said(written)
    emulator = subprocess.Popen(
        clone.command("slipway", "emulate", "tpu", "--port", "0", "--speed", "1000"),
        cwd=clone.directory,
        env=clone.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    with ended(emulator):
        assert emulator.stdout
        page = re.findall(r"http://\S+", emulator.stdout.readline())[0]
        for name, value in re.findall(r"(\w+)=(http://\S+)", emulator.stdout.readline()):
            monkeypatch.setenv(name, value)

        up = clone.pulumi("up", STACK)
        assert up.returncode == 0, said(up)
        (request,) = httpx.get(f"{page}/_/state").json()["requests"]
        assert request["state"] == "ACTIVE"

        httpx.post(f"{page}/_/preempt", json={"name": request["name"]}).raise_for_status()
        again = clone.pulumi("up", STACK, "--color", "never")
        assert again.returncode == 0, said(again)
        assert "is SUSPENDED (preempted): deleting it, then asking again" in said(again)
        (request,) = httpx.get(f"{page}/_/state").json()["requests"]
        assert request["state"] == "ACTIVE"

        destroyed = clone.pulumi("destroy", STACK)
        assert destroyed.returncode == 0, said(destroyed)
        assert httpx.get(f"{page}/_/state").json()["requests"] == []
        emulator.send_signal(signal.SIGINT)
        assert emulator.wait(timeout=900) == 0
