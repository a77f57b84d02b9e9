"""One emulator a test, whose clock stands still, and a client of it."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.emulators.tpu_api import Cloud, TpuApi
from tests.unit.tpu_emulator.client import START_S, TIMINGS, Client


@pytest.fixture
def api() -> Iterator[TpuApi]:
    with TpuApi(Cloud(TIMINGS, now_s=START_S)) as api:
        yield api


@pytest.fixture
def client(api: TpuApi) -> Iterator[Client]:
    client = Client(api.url)
    yield client
    client.google.transport.close()
