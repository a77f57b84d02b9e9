"""A stack of target vertex whose containers really run: trained, cancelled, and gone on with by the next `up`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import names
from infra.emulated import STORAGE, VERTEX
from infra.emulators import emulated_cloud
from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.object_store import ObjectStore
from infra.emulators.vertex_jobs import JobCloud, JobState, VertexApi, running_cloud
from infra.emulators.vertex_jobs.replica_processes import ReplicaProcesses
from infra.paths import INSTALLED
from infra.stack_file.settings import check
from infra.targets.vertex.provider.vertex_cleanup import APPEARS
from infra.targets.vertex.settings import VertexSettings
from tests.engine.clone import TINY, Clone, said
from tests.engine.project import until
from tests.engine.vertex_cloud import AT_ONCE
from tests.training.cluster import XLA_FLAGS
from training.checkpoints import completed_steps

STACK, PROJECT, REGION = "vertex-vcpu-2", "try-it", "us-east5"
BUCKET = names.of(PROJECT, REGION, "slipway").checkpoints_bucket
FOR_EVER, SAVE_EVERY, MORE_STEPS = 1_000_000, 1000, 4


def keys(steps: int) -> dict[str, Any]:
    training = TINY | {"checkpoint_period": SAVE_EVERY, "learning_rate_schedule_steps": FOR_EVER}
    training |= {"ici_fsdp_parallelism": 2, "per_device_batch_size": 1}
    return {
        "target": "vertex",
        "owner": "me@example.com",
        "tier": "on-demand",
        "project": PROJECT,
        "regions": [REGION],
        "accelerator": "vcpu-2",
        "steps": steps,
        "data": "synthetic",
        "data_options": {"vocab_size": 512},
        "training": training,
        "fit": "unchecked",
    }


def write(clone: Clone, steps: int) -> None:
    salt = yaml.safe_load((clone.directory / "stacks" / "Pulumi.local.yaml").read_text())["encryptionsalt"]
    config = {f"slipway:{key}": value for key, value in keys(steps).items()}
    text = yaml.safe_dump({"encryptionsalt": salt, "config": config})
    (clone.directory / "stacks" / f"Pulumi.{STACK}.yaml").write_text(text)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[VertexApi]:
    """What `slipway emulate vertex --run` is, with this machine's installed environments."""
    monkeypatch.setenv(VERTEX, "http://127.0.0.1")
    settings = check(STACK, keys(FOR_EVER))
    assert isinstance(settings, VertexSettings)
    policies = BucketPolicies()
    buckets = emulated_cloud.fill(tmp_path / "buckets", [settings])
    emulated_cloud.grant(policies, [settings])
    with (
        ObjectStore(tmp_path / "buckets", buckets, policies=policies) as store,
        running_cloud.replicas(store, tmp_path / "jobs") as replicas,
        VertexApi(JobCloud(AT_ONCE, replicas=replicas), speed=1) as api,
    ):
        replicas.endpoints = {**replicas.endpoints, "SLIPWAY_ROOT": str(INSTALLED), "XLA_FLAGS": XLA_FLAGS}
        monkeypatch.setenv(VERTEX, api.url)
        monkeypatch.setenv(STORAGE, store.url)
        monkeypatch.setenv(APPEARS, "1")
        yield api


def pulumi(clone: Clone, verb: str, *arguments: str) -> None:
    done = clone.pulumi(verb, STACK, *arguments)
    assert done.returncode == 0, said(done)


def jobs(api: VertexApi) -> list[Any]:
    with api.lock:
        api.tick()
        return list(api.cloud.jobs.values())


def printed(api: VertexApi) -> str:
    return "\n".join(line.text for line in api.cloud.log.lines[-80:])


def saved(buckets: Path) -> int:
    found = [completed_steps(each, remote=True) for each in (buckets / BUCKET).glob(f"{STACK}/*/checkpoints")]
    return max(found, default=0)


def steps_done(api: VertexApi) -> int:
    """As the primary replica prints them."""
    (job,) = jobs(api)
    assert job.state is JobState.RUNNING, f"{job.failure}\n{printed(api)}"
    assert isinstance(api.cloud.replicas, ReplicaProcesses)
    status = api.cloud.replicas.directory / job.id / "workerpool0-0" / "home" / "slipway" / "host" / "status.json"
    return int(json.loads(status.read_text()).get("step") or 0) if status.exists() else 0


def test_a_cancelled_job_is_gone_on_with_by_the_next(tmp_path: Path, api: VertexApi) -> None:
    clone = Clone.make(tmp_path / "clone")
    write(clone, FOR_EVER)
    pulumi(clone, "up")
    until(lambda: steps_done(api) >= 2, "two steps are done")
    (job,) = jobs(api)
    with api.lock:
        api.cloud.cancel(job)
    until(lambda: jobs(api)[0].state is JobState.CANCELLED, "the job is cancelled")
    before = saved(tmp_path / "buckets")
    assert before >= 2, f"a stop saves\n{printed(api)}"

    write(clone, before + MORE_STEPS)
    pulumi(clone, "up")
    until(lambda: jobs(api)[0].state not in (JobState.QUEUED, JobState.PENDING, JobState.RUNNING), "the job has ended")
    (job,) = jobs(api)
    assert job.state is JobState.SUCCEEDED, f"{job.failure}\n{printed(api)}"
    assert saved(tmp_path / "buckets") == before + MORE_STEPS
    pulumi(clone, "preview", "--expect-no-changes")
    pulumi(clone, "destroy")
    assert jobs(api) == []
