"""What containers of a job run and are told, and real ones as processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.emulators.vertex_jobs import JobCloud, VertexApi, job_messages
from infra.emulators.vertex_jobs.container import LABEL
from infra.emulators.vertex_jobs.container_command import ImageConfig, argv
from infra.emulators.vertex_jobs.job_records import EmulatedJob, Region
from infra.emulators.vertex_jobs.replica_environment import service_variables
from infra.emulators.vertex_jobs.replica_processes import ReplicaProcesses
from infra.labelled_processes import labelled
from tests.unit.vertex_jobs.caller import START_S, TIMINGS, UNTIL_RUNNING_S, Caller, pool, wanted
from training.hosts import who_am_i

IMAGE = ImageConfig(("python", "-m"), ("trainer", "--all"))


@pytest.mark.parametrize(
    ("image", "command", "args", "runs"),
    [
        (IMAGE, [], [], ["python", "-m", "trainer", "--all"]),
        (IMAGE, [], ["other"], ["python", "-m", "other"]),
        (IMAGE, ["sh"], [], ["sh"]),  # the image's CMD was meant for its own entrypoint
        (IMAGE, ["sh", "-c"], ["ls"], ["sh", "-c", "ls"]),
        (ImageConfig(), [], [], []),
        (ImageConfig(), ["echo"], ["$(RANK) $(date) $$x $${y} $HOME"], ["echo", "1 $(date) $x ${y} $HOME"]),
    ],
)
def test_command_and_args_take_the_place_of_the_image_s_own(
    image: ImageConfig, command: list[str], args: list[str], runs: list[str]
) -> None:
    assert argv(image, command, args, {"RANK": "1"}) == runs


def job_of(asked: dict[str, Any]) -> EmulatedJob:
    message = job_messages.parse("CustomJob", asked, "custom_job")
    return EmulatedJob(Region.of("projects/p/locations/us-central1"), "p", "17", message, START_S)


def test_replicas_are_told_who_they_are_and_the_training_understands_it() -> None:
    """training/hosts.py reads what the service says; nobody here wrote CLUSTER_SPEC's form."""
    job = job_of(wanted(pools=[pool(), pool(2)], baseOutputDirectory={"outputUriPrefix": "gs://b/p"}))
    addresses = {"workerpool0-0": "10.0.0.1:1", "workerpool1-0": "10.0.0.2:2", "workerpool1-1": "10.0.0.3:3"}
    told = [service_variables(job, replica, addresses) for replica in job.replicas]
    hosts = [who_am_i(each, lambda name: None) for each in told]
    assert [(host.index, host.count, host.coordinator) for host in hosts] == [(n, 3, "10.0.0.1:1") for n in range(3)]
    cluster = json.loads(told[2]["CLUSTER_SPEC"])
    assert cluster["cluster"] == {"workerpool0": ["10.0.0.1:1"], "workerpool1": ["10.0.0.2:2", "10.0.0.3:3"]}
    assert (cluster["task"], cluster["environment"]) == ({"type": "workerpool1", "index": 1}, "cloud")
    assert cluster["job"]["workerPoolSpecs"][1]["replicaCount"] == "2"
    tensorflow = json.loads(told[1]["TF_CONFIG"])
    assert (tensorflow["cluster"]["worker"], tensorflow["task"]["type"]) == (["10.0.0.2:2", "10.0.0.3:3"], "worker")
    assert (told[0]["AIP_CHECKPOINT_DIR"], told[0]["WORLD_SIZE"]) == ("gs://b/p/checkpoints/", "3")
    assert told[0]["CLOUD_ML_PROJECT_ID"].isdecimal()
    assert "TF_CONFIG" not in service_variables(job_of(wanted(pools=[pool()])), job.replicas[0], addresses)


# --- real processes ---


@pytest.fixture
def api(tmp_path: Path) -> Iterator[VertexApi]:
    replicas = ReplicaProcesses(tmp_path / "replicas", grace_s=60)
    with VertexApi(JobCloud(TIMINGS, now_s=START_S, replicas=replicas)) as api:
        yield api
    assert running(tmp_path) == []


def running(directory: Path) -> list[psutil.Process]:
    return labelled(LABEL, lambda value: value.startswith(str(directory)))


def until[Answer](answers: Callable[[], Answer]) -> Answer:
    by = time.monotonic() + 60
    while not (answer := answers()):
        assert time.monotonic() < by
        time.sleep(0.02)
    return answer


def started(caller: Caller, *scripts: str, **spec: Any) -> str:
    """The name of a running job whose replicas run these shell scripts."""
    pools = [pool(containerSpec={"imageUri": "i", "command": ["bash", "-c"], "args": [text]}) for text in scripts]
    return caller.running(pools=pools, **spec)


def ends(caller: Caller, name: str, state: str) -> Any:
    """The job, once it is in that state. The cloud's clock moves with the calls."""

    def look() -> Any:
        caller.api.advance(1)
        return caller.get(name) if caller.state(name) == state else None

    return until(look)


def file_of(api: VertexApi, name: str, replica: str, path: str) -> Path:
    assert isinstance(api.cloud.replicas, ReplicaProcesses)
    return api.cloud.replicas.directory / name.rpartition("/")[2] / replica / "home" / path


def test_a_job_runs_its_commands_and_succeeds_with_its_primary(api: VertexApi, caller: Caller) -> None:
    name = started(caller, 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR" >who; test "$HOME" = "$PWD"', "sleep 600")
    ends(caller, name, "SUCCEEDED")
    assert file_of(api, name, "workerpool0-0", "who").read_text() == "0 of 2 at 127.0.0.1\n"


def test_an_exit_code_is_the_job_s_error(caller: Caller) -> None:
    name = started(caller, "sleep 600", "exit 7")
    assert "workerpool1-0 exited with a non-zero status of 7" in ends(caller, name, "FAILED")["error"]["message"]


def test_a_command_that_is_not_there_is_an_error_too(caller: Caller) -> None:
    name = caller.running(pools=[pool()])
    assert "non-zero status of 127" in ends(caller, name, "FAILED")["error"]["message"]


def test_a_cancelled_job_may_save_first(api: VertexApi, caller: Caller) -> None:
    """SIGTERM to the one process, and what it leaves behind ends with it."""
    script = "trap 'echo saved >state; exit 0' TERM; sleep 601 & touch ready; wait"
    name = started(caller, script, "trap '' TERM; touch ready; exec sleep 602")
    assert isinstance(api.cloud.replicas, ReplicaProcesses)
    directory = api.cloud.replicas.directory
    for replica in ("workerpool0-0", "workerpool1-0"):
        until(file_of(api, name, replica, "ready").exists)
    caller.cancel(name)
    until(file_of(api, name, "workerpool0-0", "state").exists)
    api.advance(60)
    assert caller.state(name) == "CANCELLING", "one ignores it, and has its grace time"
    (stubborn,) = until(lambda: [each for each in running(directory) if "602" in each.cmdline()])
    stubborn.kill()
    ends(caller, name, "CANCELLED")
    assert running(directory) == []


def test_what_does_not_end_is_killed(api: VertexApi, caller: Caller) -> None:
    assert isinstance(api.cloud.replicas, ReplicaProcesses)
    api.cloud.replicas.grace_s = 0.1
    name = started(caller, "trap '' TERM; touch ready; while :; do sleep 600; done")
    until(file_of(api, name, "workerpool0-0", "ready").exists)
    caller.cancel(name)
    ends(caller, name, "CANCELLED")


def test_a_preempted_job_begins_again_in_an_empty_home(api: VertexApi, caller: Caller) -> None:
    name = started(caller, "test ! -e once || exit 9; touch once; sleep 600", scheduling={"strategy": "SPOT"})
    until(file_of(api, name, "workerpool0-0", "once").exists)
    first = file_of(api, name, "workerpool0-0", "once").stat().st_mtime_ns
    caller.control("preempt", {"job": name})
    ends(caller, name, "PENDING")
    api.advance(UNTIL_RUNNING_S)
    assert caller.state(name) == "RUNNING"
    again = file_of(api, name, "workerpool0-0", "once")
    until(lambda: again.exists() and again.stat().st_mtime_ns > first)


def test_a_worker_s_machine_is_replaced_alone(api: VertexApi, caller: Caller) -> None:
    name = started(caller, "sleep 600", "echo $BASHPID >pid; sleep 600")
    pid = file_of(api, name, "workerpool1-0", "pid")
    first = until(lambda: pid.exists() and pid.read_text())
    caller.control("maintenance", {"job": name, "replica": "workerpool1-0"})
    assert caller.state(name) == "RUNNING"
    assert until(lambda: pid.exists() and pid.read_text()) != first


def test_nothing_outlives_a_killed_emulator(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from infra.emulators.vertex_jobs import JobCloud, JobTimings, VertexApi
from infra.emulators.vertex_jobs.replica_processes import ReplicaProcesses
from tests.unit.vertex_jobs.caller import Caller, pool
import signal
replicas = ReplicaProcesses(Path({str(tmp_path)!r}))
with VertexApi(JobCloud(JobTimings(0, 0), replicas=replicas)) as api, Caller(api) as caller:
    caller.create(pools=[pool(containerSpec={{"imageUri": "i", "command": ["sleep", "603"]}})])
    print("started", flush=True)
    signal.pause()
"""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, text=True
    ) as emulator:
        assert emulator.stdout
        assert emulator.stdout.readline() == "started\n"
        until(lambda: running(tmp_path))
        emulator.kill()
    until(lambda: not running(tmp_path))


def test_what_containers_print_is_in_cloud_logging(caller: Caller) -> None:
    structured = json.dumps({"message": "two", "step": 2})
    name = started(caller, f"echo one; echo '{structured}'; printf three; echo four >&2; sleep 1")
    ends(caller, name, "SUCCEEDED")
    job = name.rpartition("/")[2]
    of_job = f'resource.type="ml_job" AND resource.labels.job_id="{job}"'
    entries = caller.entries(f'{of_job} AND resource.labels.task_name="workerpool0-0"')
    said = [(entry["severity"], entry["jsonPayload"]["message"]) for entry in entries]
    assert sorted(said) == [("ERROR", "four"), ("INFO", "one"), ("INFO", "three"), ("INFO", "two")]
    assert [entry["jsonPayload"].get("step") for entry in entries].count(2) == 1
    assert entries[0]["resource"]["labels"] == {
        "job_id": job,
        "project_id": "345434927424",
        "task_name": "workerpool0-0",
    }
    assert [entry["jsonPayload"]["message"] for entry in caller.entries(f"{of_job} severity>=ERROR")] == ["four"]
    service = caller.entries(f'{of_job} resource.labels.task_name="service"', orderBy="timestamp desc", pageSize=1)
    assert [entry["jsonPayload"]["message"] for entry in service] == ["Job completed successfully."]
    assert caller.entries(f'{of_job} AND timestamp<"2020-01-01T00:00:00Z"') == []
    assert caller.entries(of_job, resourceNames=["projects/other"]) == []
