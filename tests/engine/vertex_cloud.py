"""An emulated Vertex AI for stacks of target vertex, with the buckets of such stacks; for tests and benchmarks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.emulated import VERTEX
from infra.emulators import emulated_cloud
from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.object_store import ObjectStore
from infra.emulators.vertex_jobs import JobCloud, JobTimings, VertexApi, running_cloud
from infra.stack_file.settings import check
from infra.targets.vertex.provider.vertex_cleanup import APPEARS
from infra.targets.vertex.settings import VertexSettings
from tests.engine.clone import TINY, Clone
from tests.engine.tpu_cloud import PROJECT, shipped

AT_ONCE = JobTimings(queue_s=0, provision_s=0, stockout_s=0, cancel_s=0, delete_s=0)


def vertex_settings(stack: str, **changed: Any) -> VertexSettings:
    settings = check(stack, shipped(stack) | changed)
    assert isinstance(settings, VertexSettings)
    return settings


@contextlib.contextmanager
def emulated_vertex(work: Path, likes: list[str], timings: JobTimings = AT_ONCE) -> Iterator[VertexApi]:
    """Vertex AI and the buckets of stacks like these in PROJECT, for every process that is started meanwhile."""
    root = work / "buckets"
    buckets = emulated_cloud.fill(root, [vertex_settings(stack, project=PROJECT) for stack in likes])
    with (
        VertexApi(JobCloud(timings), speed=1) as api,
        ObjectStore(root, buckets) as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(VERTEX, api.url)
        patch.setenv(APPEARS, "1")  # what is asked for is there at once, and the engine's clock is real
        patch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield api


@contextlib.contextmanager
def running_vertex(clone: Clone, work: Path) -> Iterator[str]:
    """A stack of two machines without accelerators in a Vertex AI whose containers run; gives its name."""
    stack, like = "vertex-vcpu-2", shipped("vertex-a3-mega-2")
    training = TINY | {"checkpoint_period": 20, "ici_fsdp_parallelism": 2, "eval_interval": -1}
    training |= {"learning_rate_schedule_steps": 1_000_000}
    changed = {"accelerator": "vcpu-2", "project": PROJECT, "regions": ["us-east5"], "fit": "unchecked"}
    keys = {key: value for key, value in like.items() if key != "max_usd_per_hour"} | changed
    keys |= {"steps": 1_000_000, "training": training}
    salt = yaml.safe_load((clone.directory / "stacks" / "Pulumi.local.yaml").read_text())["encryptionsalt"]
    document = {"encryptionsalt": salt, "config": {f"slipway:{key}": value for key, value in keys.items()}}
    (clone.directory / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as there:
        patch.setenv(VERTEX, "http://127.0.0.1")  # else the accelerator is refused
        settings = check(stack, keys)
        assert isinstance(settings, VertexSettings)
        policies = BucketPolicies()
        buckets = emulated_cloud.fill(work / "buckets", [settings])
        emulated_cloud.grant(policies, [settings])
        store = there.enter_context(ObjectStore(work / "buckets", buckets, policies=policies))
        replicas = there.enter_context(running_cloud.replicas(store, work / "jobs"))
        api = there.enter_context(VertexApi(JobCloud(AT_ONCE, replicas=replicas), speed=1))
        patch.setenv(VERTEX, api.url)
        patch.setenv(APPEARS, "1")
        patch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield stack
