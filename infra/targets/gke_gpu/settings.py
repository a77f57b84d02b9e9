"""Keys of a stack of target `gke-gpu`: those of every GKE cluster, and networks of the GPUs that exist already.

Owns what its pools of GPUs are called and have. Refuses to own what Google is told of them (gpu_pools.py) and what a
network needs (infra/pods/gpu_networks.yaml). Not run on real hardware.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar

from infra.gke.settings import POOL_LABEL, GkeSettings
from infra.pods import gpu_networks
from infra.stack_file.settings import SettingsError, without
from infra.stack_file.terms import where

ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"


def _pair_problem(pair: str) -> str | None:
    if re.fullmatch(r"[a-z][-a-z0-9]{0,62}/[a-z][-a-z0-9]{0,62}", pair):
        return None
    return "no network and subnet; write <network>/<subnet>, by their names"


class GkeGpuSettings(GkeSettings):
    """A GKE cluster of its own, with a pool of GPU nodes for each slice."""

    platform: ClassVar[str] = "gpu"

    data_networks: tuple[Annotated[str, without(_pair_problem)], ...] = ()
    """Networks of the GPUs that exist already, instead of those that the stack makes - one for each network card, as
    <network>/<subnet>."""

    @property
    def pool_names(self) -> tuple[str, ...]:
        """Another number of nodes is the same pool, made larger or smaller."""
        return tuple(f"{self.row.family}-{index}" for index in range(self.slices))

    @property
    def resource(self) -> str:
        return "nvidia.com/gpu"

    @property
    def node_labels(self) -> Mapping[str, str]:
        """A single slice names its pool: a smaller one of the same kind would take its first pod, and hold the rest."""
        of_kind = {ACCELERATOR_LABEL: str(self.row.gke_accelerator)}
        return of_kind | ({POOL_LABEL: self.pool_names[0]} if self.slices == 1 else {})

    @property
    def data_cards(self) -> int:
        has_networks = gpu_networks.mtu(self.network_of_gpus) is not None
        return self.row.data_nics or 0 if has_networks else 0

    @property
    def makes_networks(self) -> bool:
        return super().makes_networks and not self.data_networks

    def check_place(self) -> None:
        super().check_place()
        _kind_rule(self)
        self.check_gpu_network_known()
        _networks_rule(self)


def _kind_rule(settings: GkeGpuSettings) -> None:
    if settings.row.platform != settings.platform:
        raise SettingsError(
            f"accelerator '{settings.row.name}' has no GPUs, and target gke-gpu makes pools of GPUs alone; write "
            f"`target: gke-tpu` for TPUs ({where(settings)})"
        )


def _networks_rule(settings: GkeGpuSettings) -> None:
    named = settings.data_networks
    if not named or len(named) == settings.data_cards == len(set(named)):
        return
    machine = settings.row.machine.name if settings.row.machine else settings.row.name
    raise SettingsError(
        f"data_networks has {len(set(named))} networks in {where(settings)}, but a {machine} has "
        f"{settings.data_cards} network cards for data here; name as many, or leave data_networks out"
    )
