"""Host processes of this machine, with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from infra.paths import ROOT, StackPaths
from infra.targets.local import host_directory, processes
from infra.targets.local.host_directory import HostRecord
from infra.targets.local.hosts import LocalHosts
from training.host_status import HostStatus, Phase, write_status
from training.run_spec import RunSpec


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + 900
    while not condition():
        assert time.monotonic() < end, f"not seen: {what}"
        time.sleep(0.02)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "stack with a space" / "hosts" / "0"
    directory.mkdir(parents=True)
    yield directory
    processes.kill_all(tmp_path)


def start(directory: Path, code: str) -> host_directory.psutil.Process:
    return processes.start_detached([sys.executable, "-c", code], os.environ, directory, directory / "log")


def test_everything_a_host_started_is_found_and_ended(root: Path) -> None:
    """A grandchild in a session of its own has no tie to the host but its environment."""
    escape = "import subprocess, sys, time; subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"
    start(root, escape)
    until(lambda: len(processes.labelled(root)) == 2, "the host and the process that left its session")
    assert processes.kill_all(root) == 2
    assert processes.labelled(root) == []


def test_who_has_started_a_host_may_end_before_it_without_a_complaint(root: Path) -> None:
    """`up` and `start` printed a ResourceWarning at exit for each host, where Python shows those."""
    code = (
        "import os, pathlib, sys; from infra.targets.local import processes\n"
        "here = pathlib.Path(sys.argv[1]); processes.start_detached(['sleep', '600'], os.environ, here, here / 'log')"
    )
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", code, str(root)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    # exec closes the pipe that its parent waits on before the environment is there to be read
    until(lambda: len(processes.labelled(root)) == 1, "its environment to be readable")
    assert processes.kill_all(root) == 1


def test_another_stacks_processes_are_out_of_reach(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "stack with a space 2" / "hosts" / "0"
    other.mkdir(parents=True)
    start(other, "import time; time.sleep(600)")
    until(lambda: len(processes.labelled(other)) == 1, "its environment to be readable")  # a moment after exec
    assert processes.kill_all(root.parent.parent) == 0
    assert len(processes.labelled(other)) == 1


def test_a_reused_pid_is_somebody_else() -> None:
    me = host_directory.psutil.Process()
    assert processes.find(me.pid, me.create_time()) is not None
    assert processes.find(me.pid, me.create_time() - 60) is None


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    started = host_directory.psutil.Process(child.pid).create_time()
    until(lambda: host_directory.psutil.Process(child.pid).status() == host_directory.psutil.STATUS_ZOMBIE, "a zombie")
    assert processes.find(child.pid, started) is None
    child.wait()


def host(
    directory: Path, index: int, status: HostStatus | None, code: str = "import time; time.sleep(600)"
) -> HostRecord:
    """A host whose process runs `code`, and whose last word is `status`."""
    directory.mkdir(parents=True, exist_ok=True)
    process = start(directory, code)
    record = HostRecord(
        index, 2, "127.0.0.1:1", "/store", "0" * 16, "/installed", "/cache", process.pid, process.create_time()
    )
    (directory / host_directory.RECORD).write_text(json.dumps(asdict(record)))
    if status:
        write_status(directory, status)
    return record


def test_a_killed_host_is_lost_and_its_peer_cannot_go_on(root: Path) -> None:
    training = HostStatus(Phase.TRAINING, started=0, updated=0, step=7, steps=10)
    host(root, 0, training)
    lost = host(root.parent / "1", 1, training)
    assert [state.phase for state in host_directory.states(root.parent)] == ["training", "training"]
    assert host_directory.health(root) == "ok"

    os.kill(lost.pid, signal.SIGKILL)
    os.waitpid(lost.pid, 0)
    state = host_directory.state(root.parent / "1")
    assert state is not None
    assert (state.phase, state.reason) == ("lost", "its process was killed at step 7 of 10 and could not say why")
    assert host_directory.health(root) == "host 1 lost: its process was killed at step 7 of 10 and could not say why"


def test_a_finished_host_is_healthy_without_a_process(root: Path) -> None:
    record = host(root, 0, HostStatus(Phase.FINISHED, started=0, updated=0, step=10, steps=10), "pass")
    os.waitpid(record.pid, 0)
    assert host_directory.health(root) == "ok"


def test_stop_asks_first_then_ends_what_is_left(root: Path) -> None:
    saves = (
        "import pathlib, signal, subprocess, sys, time\n"
        "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "def save(*_):\n"
        "    while not pathlib.Path('seen').exists(): time.sleep(0.01)\n"
        "    pathlib.Path('saved').touch(); sys.exit(75)\n"
        "signal.signal(signal.SIGTERM, save); pathlib.Path('ready').touch(); time.sleep(600)"
    )
    record = host(root, 0, None, saves)
    until((root / "ready").exists, "the host listens to SIGTERM")
    said: list[str] = []

    def wait(seconds: float) -> None:
        (root / "seen").touch()
        os.waitpid(record.pid, os.WNOHANG)
        time.sleep(seconds)

    host_directory.stop(root, said.append, wait)
    assert (root / "saved").exists()
    assert said[0] == "saving a checkpoint and stopping, 0s"
    assert processes.labelled(root) == []


def test_a_record_cut_short_by_a_kill_is_no_host(root: Path) -> None:
    (root / host_directory.RECORD).write_text('{"index": 0, "cou')
    assert host_directory.read_record(root) is None
    assert host_directory.states(root.parent) == []


# --- what day 2 does with them ---


@pytest.fixture
def hosts(root: Path) -> LocalHosts:
    """Two hosts in two slices; the first is training, the second has not spoken yet."""
    host(root, 0, HostStatus(Phase.TRAINING, started=0, updated=time.time(), step=7, steps=10, eta_s=3))
    host(root.parent / "1", 1, None)
    spec = RunSpec(
        "s", "run", "cpu", 2, 1, 1, 10, "gs://bucket/s", None, {"per_device_batch_size": 1, "max_target_length": 1}
    )
    (root / host_directory.RUN_SPEC).write_text(spec.to_yaml())
    return LocalHosts("s", StackPaths(root.parent.parent))


def test_hosts_are_seen_without_their_processes(hosts: LocalHosts) -> None:
    training, bootstrapping = hosts.states()
    assert (training.index, training.slice, training.phase, training.step, training.eta_s) == (0, 0, "training", 7, 3)
    assert (bootstrapping.index, bootstrapping.slice, bootstrapping.phase) == (1, 1, "bootstrapping")
    assert (bootstrapping.step, bootstrapping.running, bootstrapping.bundle) == (None, True, "0" * 16)
    assert all(0 <= view.age_s < 20 for view in (training, bootstrapping))


def test_run_in_a_bucket_is_named_by_its_url(hosts: LocalHosts) -> None:
    assert hosts.run_location() == "gs://bucket/s/run"


def test_host_that_is_not_there_is_refused_with_those_that_are(hosts: LocalHosts, tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="stack 's' has no host 2; there are: 0, 1"):
        next(hosts.logs(2, follow=False))
    with pytest.raises(LookupError, match="there are: none; run `pulumi up` first"):
        next(LocalHosts("s", StackPaths(tmp_path / "nowhere")).logs(0, follow=False))


def test_kept_runs_are_named_and_deleted_when_the_hosts_are_gone(tmp_path: Path) -> None:
    gone = LocalHosts("s", StackPaths(tmp_path))
    assert gone.kept_runs() == []
    for run in ("b", "a"):
        (tmp_path / "runs" / run).mkdir(parents=True)
    assert gone.kept_runs() == [str(tmp_path / "runs" / run) for run in ("a", "b")]
    gone.delete_kept_runs()
    assert (gone.kept_runs(), gone.run_location(), gone.states()) == ([], None, [])
