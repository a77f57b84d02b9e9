"""One emulated Vertex AI a test, whose clock stands still, and a caller of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.emulators.vertex_jobs import JobCloud, VertexApi
from tests.unit.vertex_jobs.caller import START_S, TIMINGS, Caller


@pytest.fixture
def api() -> Iterator[VertexApi]:
    with VertexApi(JobCloud(TIMINGS, now_s=START_S)) as api:
        yield api


@pytest.fixture
def caller(api: VertexApi) -> Iterator[Caller]:
    with Caller(api) as caller:
        yield caller
