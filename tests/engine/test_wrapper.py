"""`.venv/bin/pulumi` with the real engine: a stack's first use, the user's backend, locks of live and dead engines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.engine.project import ROOT, until

# The wrapper as .venv/bin/pulumi starts it, for the clone named by the first argument.
WRAPPER = (
    "import os, pathlib, sys; from infra.engine.wrapper import run;"
    " sys.exit(run(sys.argv[2:], os.environ, pathlib.Path(sys.argv[1])))"
)
# made with the empty passphrase
SALT = "encryptionsalt: v1:SGA/nv62HVU=:v1:Kmvd70Ty8VY1FjnM:2BntkJzReXVT7K/SsF6hGSh+gQ86zg==\n"
# Writes down that it runs, then runs for as long as the file `hold` is there.
PROGRAM = """
import pathlib, time
pathlib.Path("started").write_text("")
while pathlib.Path("hold").exists():
    time.sleep(0.02)
"""


@dataclass(frozen=True)
class Clone:
    """A project that looks like this one, with a state of its own."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / ".slipway" / "state" / ".pulumi"

    def locks(self) -> list[Path]:
        return list(self.state.glob("locks/organization/slipway/*/*.json"))

    def stacks(self) -> list[str]:
        return sorted(path.stem for path in self.state.glob("stacks/slipway/*.json"))

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        clean = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        return subprocess.Popen(
            [sys.executable, "-c", WRAPPER, str(self.root), *arguments],
            cwd=self.root,
            env=clean | {"HOME": str(self.root.parent), "PULUMI_HOME": str(self.root.parent / "home")} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, **environment)
        out, err = process.communicate(timeout=900)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def up_in_the_middle(self, stack: str) -> subprocess.Popen[str]:
        """An `up` whose program runs until `release`."""
        (self.root / "started").unlink(missing_ok=True)
        (self.root / "hold").touch()
        up = self.start("up", "--stack", stack, "--yes", "--skip-preview", "--non-interactive")
        until((self.root / "started").exists, "the program of `up`")
        return up

    def release(self) -> None:
        (self.root / "hold").unlink(missing_ok=True)

    def files(self) -> dict[str, str]:
        return {str(path): path.read_text() for path in (self.root / "stacks").iterdir()}


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    root = tmp_path / "a clone, 50% #1"
    (root / "stacks").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (root / ".venv").symlink_to(ROOT / ".venv")
    (root / "Pulumi.yaml").write_text("name: slipway\nruntime: python\nstackConfigDir: stacks\n")
    (root / "__main__.py").write_text(PROGRAM)
    (root / "pip.py").symlink_to(ROOT / "infra" / "pip.py")  # the engine's Python host asks it
    (root / "stacks" / "Pulumi.small.yaml").write_text(
        f"# the small one\n{SALT}config:\n  slipway:target: local\n  slipway:steps:   5\n"
    )
    return Clone(root)


def test_first_preview_creates_the_stack_and_leaves_its_file_alone(clone: Clone) -> None:
    before = clone.files()
    preview = clone.run("preview", "--stack", "small", "--non-interactive")
    assert preview.returncode == 0, preview.stderr
    assert preview.stderr == ""
    assert "Stack slipway-small create" in preview.stdout
    assert clone.stacks() == ["small"]
    assert clone.files() == before


def test_two_first_commands_at_a_time_both_work(clone: Clone) -> None:
    previews = [clone.start("preview", "-s", "small", "--non-interactive") for _ in range(2)]
    results = [preview.communicate(timeout=900) for preview in previews]
    assert [preview.returncode for preview in previews] == [0, 0], results


def test_misspelt_stack_creates_nothing_and_names_the_nearest(clone: Clone) -> None:
    preview = clone.run("preview", "--stack", "smal")
    assert preview.returncode == 255
    assert preview.stdout == ""
    assert preview.stderr == (
        "error: no stack 'smal': there is no stacks/Pulumi.smal.yaml; nearest: small."
        " Name one of those, or add the file (README.md, Stacks).\n"
    )
    assert clone.stacks() == []


def test_backend_that_the_user_chose_gets_no_stack_of_ours(clone: Clone) -> None:
    theirs = clone.root.parent / "theirs"
    theirs.mkdir()
    listing = clone.run("preview", "--stack", "small", PULUMI_BACKEND_URL=f"file://{theirs}")
    assert "no stack named 'small' found" in listing.stderr
    assert not clone.state.exists()


def test_lock_of_a_killed_engine_is_removed_with_a_notice(clone: Clone) -> None:
    up = clone.up_in_the_middle("small")
    assert len(clone.locks()) == 1
    up.kill()
    clone.release()
    up.communicate(timeout=900)
    assert len(clone.locks()) == 1
    again = clone.run("up", "--stack", "small", "--yes", "--skip-preview", "--non-interactive")
    assert again.returncode == 0, again.stderr
    assert f"note: removed the lock on stack 'small' that a killed pulumi (pid {up.pid}) left\n" in again.stderr
    assert clone.locks() == []


def test_running_up_refuses_a_second_one_and_not_a_preview(clone: Clone) -> None:
    up = clone.up_in_the_middle("small")
    try:
        refused = clone.run("destroy", "--stack", "small", "--yes")
        (lock,) = clone.locks()
        since = datetime.fromisoformat(json.loads(lock.read_text())["timestamp"]).astimezone()
    finally:
        clone.release()
    assert refused.returncode == 255
    assert refused.stderr.startswith("error: stack 'small' is in use by ")
    assert f"(pid {up.pid}) since {since:%Y-%m-%d %H:%M:%S}; wait for it, or if it never ends," in refused.stderr
    assert refused.stderr.endswith("run: .venv/bin/pulumi cancel --stack small\n")
    out, err = up.communicate(timeout=900)
    assert up.returncode == 0, out + err


def test_lock_from_another_host_is_kept_until_it_is_cancelled(clone: Clone) -> None:
    assert clone.run("preview", "--stack", "small", "--diff").returncode == 0
    lock = clone.state / "locks/organization/slipway/small/1.json"
    lock.parent.mkdir(parents=True, exist_ok=True)
    moment = datetime.now(UTC).isoformat()
    lock.write_text(json.dumps({"pid": 1, "username": "ada", "hostname": "elsewhere", "timestamp": moment}))
    refused = clone.run("up", "--stack", "small", "--yes", "--skip-preview")
    assert "in use by ada@elsewhere (pid 1)" in refused.stderr
    assert lock.exists()
    assert clone.run("cancel", "--stack", "small", "--yes").returncode == 0
    assert clone.run("up", "--stack", "small", "--yes", "--skip-preview").returncode == 0


def test_without_an_engine_the_command_that_gets_one_is_named(tmp_path: Path) -> None:
    missing = Clone(tmp_path).run("version")
    assert (missing.returncode, missing.stderr) == (255, "error: no Pulumi engine yet; run: make setup\n")


def test_a_background_job_gives_the_engine_its_interrupts_back(tmp_path: Path) -> None:
    """The engine ends its plugins by SIGINT. A shell lets its background jobs ignore that, and plugins inherit it."""
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "engine-path").write_text(str(tmp_path))
    (tmp_path / "pulumi").write_text("#!/bin/sh\ngrep SigIgn /proc/self/status\n")
    (tmp_path / "pulumi").chmod(0o755)
    command = ["bash", "-c", 'trap "" INT; exec "$@"', "bash", sys.executable, "-c", WRAPPER, str(tmp_path), "version"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert int(told.split()[1], 16) & 1 << signal.SIGINT - 1 == 0


def test_another_project_gets_none_of_our_state(clone: Clone) -> None:
    other = clone.root.parent / "other"
    other.mkdir()
    (other / "Pulumi.yaml").write_text("name: other\nruntime: python\n")
    theirs = clone.root.parent / "theirs"
    theirs.mkdir()
    listing = clone.run("stack", "ls", "-C", str(other), PULUMI_BACKEND_URL=f"file://{theirs}")
    assert listing.returncode == 0, listing.stderr
    assert not (clone.root / ".slipway").exists()
