"""Keys of a stack of target `gke-tpu`: those of every GKE cluster. Owns what its pools of TPUs are called and have.

Refuses to own what Google is told of them (tpu_pools.py). Not run on real hardware.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from infra.gke.settings import GkeSettings
from infra.stack_file.settings import SettingsError
from infra.stack_file.terms import where

ACCELERATOR_LABEL, TOPOLOGY_LABEL = "cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"


class GkeTpuSettings(GkeSettings):
    """A GKE cluster of its own, with a pool of TPU nodes for each slice."""

    platform: ClassVar[str] = "tpu"

    @property
    def pool_names(self) -> tuple[str, ...]:
        """With the topology: to Google's plugin another one would be no other pool."""
        return tuple(f"{self.row.family}-{self.row.topology_text}-{index}" for index in range(self.slices))

    @property
    def resource(self) -> str:
        return "google.com/tpu"

    @property
    def node_labels(self) -> Mapping[str, str]:
        return {ACCELERATOR_LABEL: str(self.row.gke_accelerator), TOPOLOGY_LABEL: str(self.row.topology_text)}

    def check_place(self) -> None:
        super().check_place()
        if self.row.platform != self.platform:
            raise SettingsError(
                f"accelerator '{self.row.name}' is no TPU, and target gke-tpu makes pools of TPUs alone; write "
                f"`target: gke-gpu` for GPUs ({where(self)})"
            )
