"""An emulated cloud for stacks of target tpu-vm, with the real engine in a clone before it.

Shared by tests and benchmarks. The wheelhouses of the stacks are in their buckets already, so that nothing is built.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.emulated import TPU
from infra.emulators import emulated_cloud
from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import Cloud, Timings, TpuApi
from infra.paths import ROOT
from infra.stack_file.settings import check
from infra.targets.tpu_vm.provider.tpu_cleanup import APPEARS
from infra.targets.tpu_vm.settings import TpuVmSettings
from tests.emulators.instant import INSTANT
from tests.engine.clone import Clone

PROJECT = "real-project"


def shipped(stack: str) -> dict[str, Any]:
    """The keys of a shipped stack file, without their namespace."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())["config"]
    return {key.removeprefix("slipway:"): value for key, value in config.items()}


def settings_of(stack: str, **changed: Any) -> TpuVmSettings:
    settings = check(stack, shipped(stack) | changed)
    assert isinstance(settings, TpuVmSettings)
    return settings


def write(clone: Clone, stack: str, like: str = "v6e-32", **settings: Any) -> None:
    """A stack file like a shipped one."""
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{like}.yaml").read_text())
    document["config"] |= {f"slipway:{key}": value for key, value in settings.items()}
    (clone.directory / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))


@contextlib.contextmanager
def emulated(work: Path, likes: list[str], timings: Timings | None = None) -> Iterator[TpuApi]:
    """TPU API and the buckets of stacks like these in PROJECT, for every process that is started meanwhile."""
    root = work / "buckets"
    buckets = emulated_cloud.fill(root, [settings_of(stack, project=PROJECT) for stack in likes])
    with (
        TpuApi(Cloud(timings or INSTANT)) as api,
        ObjectStore(root, buckets) as store,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv(TPU, api.url)
        patch.setenv(APPEARS, "1")  # what is asked for is there at once, and the engine's clock is real
        patch.setenv("STORAGE_EMULATOR_HOST", store.url)
        yield api
