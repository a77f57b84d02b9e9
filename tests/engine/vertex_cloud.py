"""An emulated Vertex AI for stacks of target vertex, with the buckets of such stacks; for tests and benchmarks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.emulated import VERTEX
from infra.emulators import emulated_cloud
from infra.emulators.object_store import ObjectStore
from infra.emulators.vertex_jobs import JobCloud, JobTimings, VertexApi
from infra.stack_file.settings import check
from infra.targets.vertex.provider.vertex_cleanup import APPEARS
from infra.targets.vertex.settings import VertexSettings
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
