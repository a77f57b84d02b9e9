"""A custom job of the emulated Vertex AI trains with real MaxText: training/launch.py in two replicas, told who they
are by what the service sets alone."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import requests

from infra.emulators.vertex_jobs import JobCloud, JobTimings, VertexApi
from infra.emulators.vertex_jobs.replica_processes import ReplicaProcesses
from tests.training.cluster import COMPILED, ROOT, XLA_FLAGS, record, wait_until
from tests.training.tiny import TINY
from training.checkpoints import checkpoint_directory, completed_steps
from training.host_status import HostStatus, Phase, read_status
from training.run_spec import RunSpec

REGION = "projects/p/locations/us-central1"
FIELDS = TINY | {"checkpoint_period": 1000, "learning_rate_schedule_steps": 1000}
MORE_STEPS = 3


@pytest.mark.sample(0)  # tests/engine/test_vertex_run.py has the same of a stack
def test_a_job_trains_is_cancelled_and_the_next_resumes(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT), "XLA_FLAGS": XLA_FLAGS}
    replicas = ReplicaProcesses(tmp_path / "replicas", environment)
    with VertexApi(JobCloud(JobTimings(0, 0, cancel_s=0), replicas=replicas), speed=1) as api:
        output = tmp_path / "out"
        first = create(api, tmp_path, 1_000_000)
        wait_until("the third step", lambda: steps_of(output, api, first) >= 3)
        call(api, "POST", f"{first}:cancel")
        wait_until("the end of the cancelled job", lambda: state(api, first) == "JOB_STATE_CANCELLED")
        saved = completed_steps(Path(checkpoint_directory(str(output), "run")))
        assert saved >= 3, "a stop saves"
        assert {each.phase for each in statuses(replicas, first)} == {Phase.INTERRUPTED}

        second = create(api, tmp_path, saved + MORE_STEPS)
        wait_until(
            "the end of the second job", lambda: state(api, second) not in ("JOB_STATE_QUEUED", "JOB_STATE_RUNNING")
        )
        assert state(api, second) == "JOB_STATE_SUCCEEDED", printed(api, second)
        for status in statuses(replicas, second):
            assert (status.resumed_from, status.step) == (saved, saved + MORE_STEPS)
        tasks = {entry["resource"]["labels"]["task_name"] for entry in entries(api, second)}
        assert tasks == {"service", "workerpool0-0", "workerpool1-0"}


def create(api: VertexApi, directory: Path, steps: int) -> str:
    """The name of a job of two machines that trains so many steps."""
    spec = directory / f"{steps}.yaml"
    spec.write_text(RunSpec("test", "run", "cpu", 1, 2, 2, steps, str(directory / "out"), None, FIELDS).to_yaml())
    launch = [sys.executable, "-m", "training.launch", str(spec), "--cache-dir", str(COMPILED)]
    script = f'exec {shlex.join(launch)} --host-dir "$HOME/host"'
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": "1",
        "containerSpec": {"imageUri": "python", "command": ["bash", "-c"], "args": [script]},
    }
    job = {"displayName": "run", "jobSpec": {"workerPoolSpecs": [pool, pool]}}
    return str(call(api, "POST", f"{REGION}/customJobs", job)["name"])


def call(api: VertexApi, method: str, path: str, body: Any = None, version: str = "v1") -> Any:
    answer = requests.request(method, f"{api.url}/{version}/{path}", json=body, timeout=60)
    answer.raise_for_status()
    return answer.json()


def state(api: VertexApi, name: str) -> str:
    return str(call(api, "GET", name)["state"])


def entries(api: VertexApi, name: str) -> list[Any]:
    text = f'resource.labels.job_id="{name.rpartition("/")[2]}"'
    asked = {"resourceNames": ["projects/p"], "filter": text, "pageSize": 1000}
    return list(call(api, "POST", "entries:list", asked, "v2")["entries"])


def printed(api: VertexApi, name: str) -> str:
    return "\n".join(str(entry["jsonPayload"]["message"]) for entry in entries(api, name))[-6000:]


def steps_of(output: Path, api: VertexApi, name: str) -> int:
    """How many the primary replica has written down; the job still runs."""
    assert state(api, name) in ("JOB_STATE_QUEUED", "JOB_STATE_RUNNING"), printed(api, name)
    if not (output / "run" / "metrics" / "host-0.jsonl").exists():
        return 0
    return len(record(output, "run", 0))


def statuses(replicas: ReplicaProcesses, name: str) -> list[HostStatus]:
    homes = sorted((replicas.directory / name.rpartition("/")[2]).glob("*/home/host"))
    found = [read_status(home) for home in homes]
    assert len(found) == 2
    return [status for status in found if status]
