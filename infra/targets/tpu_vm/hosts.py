"""What day 2 knows of a tpu-vm stack: where its hosts read wheels and bundles. The hosts themselves it cannot reach."""

from __future__ import annotations

from infra.targets.tpu_vm.settings import TpuVmSettings


def store(settings: TpuVmSettings) -> str:
    return settings.artifacts
