"""Keys of every stack whose hosts have GPUs in containers, whoever makes those: the network between hosts, the image.

Owns which network a stack's hosts have, and what may be said of it. Refuses to own what a network needs
(gpu_networks.yaml) and what NCCL and XLA are told (training/gpu_environment.py).
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from infra import hardware
from infra.pods import gpu_networks
from infra.pods.gpu_networks import GpuNetwork
from infra.stack_file.jaxlib_flags import of_locked_jaxlib
from infra.stack_file.settings import Absent, SettingsError
from infra.stack_file.terms import Terms, where
from infra.targets.host_variables import HostVariable
from training.xla_flags import XLA_FLAGS, FlagError, parse

type Image = Annotated[str, Field(pattern=r"^[a-z0-9][\x21-\x7e]*$")]


class GpuTerms(Terms):
    """A stack whose hosts may have GPUs, in containers."""

    gpu_network: Absent[GpuNetwork] = None
    """The network by which NCCL reaches other hosts with GPUs - `tcpxo`, `efa` or `none`; if empty, the one that the
    accelerator has (docs/a3.md)."""
    allow_sockets: bool = False
    """Whether a training goes on where NCCL fell back to plain sockets between hosts with GPUs; else it ends."""
    xla_flags: Absent[str] = None
    """Flags of XLA for hosts with GPUs, as XLA_FLAGS has them - they win over those that hosts get anyway (`slipway
    env`)."""

    @property
    def network_of_gpus(self) -> GpuNetwork:
        """By which its hosts reach each other; none where there is one host."""
        if self.row.hosts * self.slices == 1:
            return GpuNetwork.NONE
        return self.gpu_network or GpuNetwork(self.row.gpu_network or GpuNetwork.NONE)

    @property
    def compiler_flags(self) -> tuple[str, ...]:
        return tuple(map(str, parse(self.xla_flags or "", "xla_flags", where(self))))

    @property
    def gpu_variables(self) -> tuple[HostVariable, ...]:
        """Of its pods' environment; none where there are no GPUs."""
        if self.row.platform != "gpu":
            return ()
        own = (HostVariable(XLA_FLAGS, self.xla_flags, "xla_flags of the stack"),) if self.xla_flags else ()
        return (*gpu_networks.variables(self.network_of_gpus, not self.allow_sockets), *own)

    @property
    def network_notices(self) -> tuple[str, ...]:
        """Of what is between its hosts, where there are GPUs on several."""
        if self.row.platform != "gpu" or self.row.hosts * self.slices == 1:
            return ()
        return gpu_networks.notices(self.network_of_gpus, not self.allow_sockets)

    def check_place(self) -> None:
        super().check_place()
        _flags_rule(self)

    def check_gpu_network(self) -> None:
        """Raises SettingsError for a network that the accelerator does not have."""
        _gpu_network_rule(self)

    def check_gpu_network_known(self) -> None:
        """Raises SettingsError where nobody knows how hosts reach each other.

        Those that do by plain sockets alone would be paid for, and train at a fraction of their speed.
        """
        row = self.row
        known = row.platform != "gpu" or row.gpu_network or self.gpu_network is GpuNetwork.NONE
        if row.hosts * self.slices == 1 or known:
            return
        raise SettingsError(
            f"accelerator '{row.name}' is {row.hosts} hosts, and infra/pods/gpu_networks.yaml has no row for the "
            f"network between them; write one, choose another accelerator, or take plain sockets with `gpu_network: "
            f"none` and `allow_sockets: true` ({where(self)})"
        )


def _flags_rule(settings: GpuTerms) -> None:
    """An unknown flag aborts every host at its start."""
    if not settings.xla_flags:
        return
    if settings.row.platform != "gpu":
        raise SettingsError(
            f"xla_flags is given in {where(settings)}, but {settings.row.name} has no GPUs; leave it out"
        )
    try:
        flags = parse(settings.xla_flags, "xla_flags", where(settings))
    except FlagError as error:
        raise SettingsError(f"{error} ({where(settings)})") from None
    for flag in flags:
        if problem := of_locked_jaxlib().problem(flag.name):
            raise SettingsError(f"xla_flags has {flag.name} in {where(settings)}: {problem}")


def _gpu_network_rule(settings: GpuTerms) -> None:
    """A machine has the network cards that it was built with; of one that nobody knows the stack has to say them."""
    row, asked = settings.row, settings.gpu_network
    if row.platform != "gpu" and (asked or settings.allow_sockets):
        key = "gpu_network" if asked else "allow_sockets"
        raise SettingsError(f"{key} is given in {where(settings)}, but {row.name} has no GPUs; leave it out")
    if asked in (None, GpuNetwork.NONE) or asked == row.gpu_network:
        return
    if asked is GpuNetwork.TCPXO or row.machine:
        has = f"has {row.gpu_network}" if row.gpu_network else "has another, of which this version knows nothing"
        machine = row.machine.name if row.machine else f"a node of {row.name}"
        others = sorted({each.family for each in hardware.rows("gpu") if each.gpu_network == asked})
        only = (
            f"{', '.join(others)} alone {'has' if len(others) == 1 else 'have'} it" if others else "no machine of ours"
        )
        raise SettingsError(
            f"gpu_network is '{asked}' in {where(settings)}, but {machine} {has} ({only}); leave gpu_network out, or "
            f"choose another accelerator"
        )
