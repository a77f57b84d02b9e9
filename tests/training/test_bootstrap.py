"""bootstrap.sh with the real uv and the real lock, under paths with spaces."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.training.cluster import ROOT, plain_environment, wait_until
from training.host_status import Phase, read_status

SCRIPT = ROOT / "training" / "bootstrap.sh"


@pytest.fixture(scope="module")
def env_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("envs") / "with a space"


def uv() -> str:
    found = os.environ.get("SLIPWAY_UV") or shutil.which("uv")
    assert found, "set SLIPWAY_UV to the path of uv, or put uv on PATH"
    return found


def variables(env_root: Path, host: Path, **more: str) -> dict[str, str]:
    directories = {"SLIPWAY_SOURCE": str(ROOT), "SLIPWAY_ENV_ROOT": str(env_root), "SLIPWAY_HOST_DIR": str(host)}
    return plain_environment() | directories | {"SLIPWAY_EXTRA": "cpu", "SLIPWAY_UV": uv()} | more


def bootstrap(environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", str(SCRIPT)], env=environ, capture_output=True, text=True, timeout=300)


def test_environment_is_made_once_and_then_found_without_uv(env_root: Path, tmp_path: Path) -> None:
    first = bootstrap(variables(env_root, tmp_path / "host 0", SLIPWAY_BOOTSTRAP_ONLY="1"))
    assert first.returncode == 0, first.stderr
    python = Path(first.stdout.splitlines()[-1])
    assert python.is_relative_to(env_root)
    assert subprocess.run([python, "-c", "import jax, maxtext"], timeout=100).returncode == 0
    began = time.monotonic()
    second = bootstrap(variables(env_root, tmp_path / "host 0", SLIPWAY_BOOTSTRAP_ONLY="1", SLIPWAY_UV="/nowhere/uv"))
    assert time.monotonic() - began < 1
    assert second.stdout == first.stdout


def test_hosts_of_one_machine_share_an_environment(env_root: Path, tmp_path: Path) -> None:
    """Two at once, from nothing: one installs, the other waits for it."""
    shutil.rmtree(env_root, ignore_errors=True)
    running = [
        subprocess.Popen(
            ["bash", str(SCRIPT)],
            env=variables(env_root, tmp_path / f"host {index}", SLIPWAY_BOOTSTRAP_ONLY="1"),
            stdout=subprocess.PIPE,
        )
        for index in range(2)
    ]
    outputs = {process.communicate(timeout=300)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0]
    assert len(outputs) == 1
    assert len([path for path in env_root.iterdir() if path.is_dir()]) == 1


def test_environment_without_its_stamp_is_made_again(env_root: Path, tmp_path: Path) -> None:
    environ = variables(env_root, tmp_path / "host", SLIPWAY_BOOTSTRAP_ONLY="1")
    python = Path(bootstrap(environ).stdout.splitlines()[-1])
    stamp = python.parents[1] / ".complete"
    stamp.unlink()
    python.unlink()
    assert bootstrap(environ).returncode == 0
    assert stamp.exists() and python.exists()


def test_it_becomes_launch(env_root: Path, tmp_path: Path) -> None:
    run_spec = tmp_path / "run spec.yaml"
    run_spec.write_text("version: 99\n")
    done = bootstrap(variables(env_root, tmp_path / "host 0", SLIPWAY_RUN_SPEC=str(run_spec)))
    assert done.returncode == 2
    assert "run spec has version 99" in done.stdout
    status = read_status(tmp_path / "host 0")
    assert status is not None and (status.phase, status.exit_code) == (Phase.FAILED, 2)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"SLIPWAY_EXTRA": "npu"}, "SLIPWAY_EXTRA is 'npu'; give cpu, tpu or gpu"),
        ({"SLIPWAY_SOURCE": "/nowhere"}, "there is no /nowhere/training/uv.lock"),
        ({"SLIPWAY_UV": "/nowhere/uv", "SLIPWAY_ENV_ROOT": "{tmp}/fresh"}, "uv is not at '/nowhere/uv'"),
    ],
)
def test_what_is_wrong_is_in_the_status(env_root: Path, tmp_path: Path, wrong: dict[str, str], reason: str) -> None:
    more = {key: value.replace("{tmp}", str(tmp_path)) for key, value in wrong.items()}
    done = bootstrap(variables(env_root, tmp_path / "host", SLIPWAY_BOOTSTRAP_ONLY="1") | more)
    assert done.returncode == 2
    status = read_status(tmp_path / "host")
    assert status is not None and status.phase is Phase.FAILED
    assert status.reason is not None and status.reason.startswith(reason)


def test_failed_install_says_uvs_reason_and_leaves_no_stamp(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "training", source / "training", ignore=shutil.ignore_patterns("__pycache__"))
    (source / "training" / "uv.lock").write_text("not a lock\n")
    environ = variables(tmp_path / "envs", tmp_path / "host", SLIPWAY_SOURCE=str(source), SLIPWAY_BOOTSTRAP_ONLY="1")
    done = bootstrap(environ)
    assert done.returncode == 1
    status = read_status(tmp_path / "host")
    assert status is not None and str(status.reason).startswith("uv could not make the environment: error: ")
    assert not list((tmp_path / "envs").glob("*/.complete"))


def test_sigterm_while_it_waits_is_an_interruption_at_once(env_root: Path, tmp_path: Path) -> None:
    """Another host holds the lock, as it does while it installs."""
    environ = variables(env_root, tmp_path / "host", SLIPWAY_BOOTSTRAP_ONLY="1")
    key = Path(bootstrap(environ).stdout.splitlines()[-1]).parents[1]
    (key / ".complete").unlink()
    holder = subprocess.Popen(["flock", f"{key}.lock", "sleep", "100"], start_new_session=True)
    try:
        waiting = subprocess.Popen(["bash", str(SCRIPT)], env=environ, start_new_session=True)
        wait_until("flock", lambda: any_child(waiting.pid, "flock"))
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(timeout=5) == 75
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
    status = read_status(tmp_path / "host")
    assert status is not None and status.phase is Phase.INTERRUPTED
    assert not any_child(waiting.pid, "flock")


def any_child(leader: int, name: str) -> bool:
    """Whether a process of this name is in the session."""
    listing = subprocess.run(["ps", "-o", "comm=", "-s", str(leader)], capture_output=True, text=True)
    return name in listing.stdout.split()
