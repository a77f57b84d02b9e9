"""Resources of target local without the engine: what they find, end and keep, with real processes and directories."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.paths import RUN_SPEC, StackPaths
from infra.providers.resource import Context, ResourceError
from infra.targets.local import host_directory, processes
from infra.targets.local.host_directory import HostRecord
from infra.targets.local.hosts import LocalHosts
from infra.targets.local.provider.local_guard_resource import LocalStackGuardResource
from infra.targets.local.provider.local_host_resource import LocalHostResource
from infra.targets.local.provider.local_inputs import LocalHostInputs, LocalStackGuardInputs
from tests.unit.test_local_processes import start, until
from training.host_status import HostStatus, Phase, write_status
from training.run_spec import RunSpec

BUNDLE = "0" * 16
SLEEP = "import time; time.sleep(600)"


@dataclasses.dataclass
class Said:
    """A call's context, and what it has said that stays."""

    lines: list[str] = dataclasses.field(default_factory=list[str])

    @property
    def context(self) -> Context:
        return Context("urn", time.monotonic() + 900, threading.Event(), lambda _: None, self.lines.append)


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[StackPaths]:
    """A stack's directory, whose processes end with the test."""
    yield StackPaths(tmp_path / "mine")
    processes.kill_all(tmp_path)


def wanted(paths: StackPaths, tmp_path: Path) -> LocalHostInputs:
    directory, store = str(paths.host(0)), str(tmp_path / "store")
    root = str(tmp_path / "installed")
    return LocalHostInputs(directory, 0, 1, "127.0.0.1:1", "", store, BUNDLE, root, str(tmp_path / "cache"))


def running(directory: Path, phase: Phase = Phase.TRAINING, code: str = SLEEP) -> HostRecord:
    """A host of one, whose last word is `phase`."""
    directory.mkdir(parents=True, exist_ok=True)
    process = start(directory, code)
    record = HostRecord(0, 1, "127.0.0.1:1", "/s", BUNDLE, "/i", "/c", process.pid, process.create_time())
    (directory / host_directory.RECORD).write_text(json.dumps(dataclasses.asdict(record)))
    write_status(directory, HostStatus(phase, started=0, updated=time.time(), step=7, steps=10))
    return record


# --- a host ---


def test_a_host_that_a_killed_up_has_started_is_taken_as_it_is(paths: StackPaths, tmp_path: Path) -> None:
    record = running(paths.host(0))
    identifier, outputs = LocalHostResource().create(Said().context, wanted(paths, tmp_path))
    assert (identifier, outputs) == ("mine/0", {"health": "ok"})
    assert host_directory.read_record(paths.host(0)) == record, "it goes on"


def test_a_host_that_cannot_start_says_why_and_is_in_the_state(paths: StackPaths, tmp_path: Path) -> None:
    """There is nothing in the store; what it has left is for the next `up`, so the engine has to know of it."""
    said = Said()
    context = said.context
    with pytest.raises(ResourceError) as caught:
        LocalHostResource().create(context, wanted(paths, tmp_path))
    assert str(caught.value) == (
        f"host 0 failed: {tmp_path}/store/bundles/{BUNDLE}/bundle.tar is missing; build and push the wheelhouse again; "
        f"log: {paths.host(0)}/host.log"
    )
    assert context.accepted == ("mine/0", {"health": "starting"})
    outputs = {"directory": str(paths.host(0))}
    seen = LocalHostResource().read(context, "mine/0", outputs)
    assert seen and LocalHostResource().drift(seen) == ["health"], "an `up` mends it"


def test_a_host_is_gone_with_its_directory_and_what_is_gone_already_is_fine(paths: StackPaths) -> None:
    running(paths.host(0))
    resource, outputs = LocalHostResource(), {"directory": str(paths.host(0))}
    for _ in range(2):
        resource.delete(Said().context, "mine/0", outputs)
        assert not paths.host(0).exists()
        assert processes.labelled(paths.root) == []
        assert resource.read(Said().context, "mine/0", outputs) is None


# --- the guard ---


def test_a_guard_of_a_stack_that_never_ran_has_nothing_to_end_or_keep(paths: StackPaths) -> None:
    guard, said = LocalStackGuardResource(), Said()
    inputs = LocalStackGuardInputs(str(paths.root), "keep")
    identifier, outputs = guard.create(said.context, inputs)
    assert (identifier, guard.read(said.context, identifier, outputs)) == (str(paths.root), {})
    assert guard.update(said.context, identifier, outputs, inputs) == {}
    guard.delete(said.context, identifier, {"on_destroy": "keep"})
    assert said.lines == []
    paths.root.rmdir()
    assert guard.read(said.context, identifier, outputs) is None
    guard.delete(said.context, identifier, {"on_destroy": "delete"})
    assert said.lines == []


def test_a_guard_ends_what_the_state_never_learned_of_and_says_where_the_runs_are(paths: StackPaths) -> None:
    said = Said()
    paths.runs.mkdir(parents=True)
    start(paths.root, SLEEP)  # of no host that there is a record of
    until(lambda: len(processes.labelled(paths.root)) == 1, "its environment to be readable")
    paths.hosts.mkdir()
    LocalStackGuardResource().delete(said.context, str(paths.root), {"on_destroy": "keep"})
    assert said.lines == [
        "ended 1 processes that the state did not know",
        f"kept checkpoints and metrics in {paths.runs}; remove them with `slipway purge mine`",
    ]
    assert (paths.hosts.exists(), paths.runs.exists()) == (False, True)


def test_a_guard_deletes_runs_that_lie_elsewhere_with_the_rest(paths: StackPaths, tmp_path: Path) -> None:
    runs, others = tmp_path / "elsewhere" / "mine", tmp_path / "elsewhere" / "theirs"
    for directory in (runs, others, paths.root):
        directory.mkdir(parents=True)
    outputs = {"on_destroy": "delete", "runs": str(runs)}
    LocalStackGuardResource().delete(Said().context, str(paths.root), outputs)
    assert (runs.exists(), paths.root.exists(), others.exists()) == (False, False, True)


# --- day 2 ---


def test_metrics_of_a_run_are_read_up_to_a_line_that_is_half_written(paths: StackPaths, tmp_path: Path) -> None:
    hosts = LocalHosts("mine", paths)
    assert list(hosts.metrics(0)) == [], "no host has a run spec"
    training = {"per_device_batch_size": 1, "max_target_length": 1}
    spec = RunSpec("mine", "run", "cpu", 1, 1, 1, 10, str(tmp_path / "runs"), None, training)
    paths.host(0).mkdir(parents=True)
    (paths.host(0) / RUN_SPEC).write_text(spec.to_yaml())
    assert list(hosts.metrics(0)) == [], "the first step is not done"
    file = tmp_path / "runs" / "run" / "metrics" / "host-0.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text('{"step": 0, "loss": 3.5}\n{"step": 1, "lo')
    assert list(hosts.metrics(0)) == [{"step": 0, "loss": 3.5}]


@pytest.mark.parametrize("follow", [False, True])
def test_a_log_is_read_to_its_end_also_where_that_is_no_text(paths: StackPaths, follow: bool) -> None:
    """Of a host that has ended there is nothing to wait for."""
    record = running(paths.host(0), code="pass")
    os.waitpid(record.pid, 0)
    (paths.host(0) / host_directory.LOG).write_bytes(b"installing\nstep 1\xff\nstep 2")
    assert list(LocalHosts("mine", paths).logs(0, follow)) == ["installing", "step 1\ufffd", "step 2"]


def test_a_log_that_is_followed_goes_on_until_its_host_ends(paths: StackPaths) -> None:
    code = "import pathlib, time\nwhile not pathlib.Path('enough').exists(): time.sleep(0.01)\nprint('last words')"
    directory = paths.host(0)
    record = running(directory)
    process = processes.start_detached([sys.executable, "-c", code], os.environ, directory, directory / "host.log")
    mine = dataclasses.replace(record, pid=process.pid, started=process.create_time())
    (directory / host_directory.RECORD).write_text(json.dumps(dataclasses.asdict(mine)))
    with (directory / host_directory.LOG).open("a") as log:
        log.write("step 1\n")
    lines = LocalHosts("mine", paths).logs(0, follow=True)
    assert next(lines) == "step 1"
    (directory / "enough").touch()
    assert list(lines) == ["last words"]


def test_hosts_that_are_well_are_not_started_anew(paths: StackPaths) -> None:
    record = running(paths.host(0))
    LocalHosts("mine", paths).start()
    assert host_directory.read_record(paths.host(0)) == record
