"""What a reviewer should know of a stack of target `gke-gpu`, and what it would be sorry for. Pure."""

from __future__ import annotations

from infra.gke import plan
from infra.pods import gpu_mesh
from infra.targets.gke_gpu.settings import GkeGpuSettings
from training.run_spec import RunSpec


def notices(settings: GkeGpuSettings, spec: RunSpec | None) -> tuple[str, ...]:
    """Raises SettingsError for a mesh that carries over the network what belongs inside a host."""
    if spec:
        gpu_mesh.check(settings, spec)
    return (*plan.notices(settings), *settings.network_notices, *_data_networks(settings))


def _data_networks(settings: GkeGpuSettings) -> tuple[str, ...]:
    if not settings.data_cards:
        return ()
    if settings.data_networks:
        return (f"its {settings.data_cards} networks for data are there: {', '.join(settings.data_networks)}",)
    return (
        f"{settings.data_cards} networks for data are made with it; a project may have few (quota NETWORKS of Compute "
        f"Engine): several stacks share some with data_networks",
    )
