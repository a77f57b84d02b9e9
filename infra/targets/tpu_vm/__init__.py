"""Target `tpu-vm`: TPU slices by one queued resource, whose hosts start training. Not run on real hardware."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from infra.emulated import QUESTIONS, STORAGE, TPU
from infra.targets.contract import PaidContract

if TYPE_CHECKING:
    from infra.preview.stack_plan import TrainingPlan
    from infra.targets.billed import Billed
    from infra.targets.hosts import Hosts
    from infra.targets.needs import Needs
    from infra.targets.tpu_vm.settings import TpuVmSettings


class TpuVm(PaidContract["TpuVmSettings", "TrainingPlan[TpuVmSettings]"]):
    asks = frozenset((TPU, STORAGE, QUESTIONS))
    emulator = "slipway emulate tpu --boot"

    def settings(self) -> type[TpuVmSettings]:
        from infra.targets.tpu_vm.settings import TpuVmSettings

        return TpuVmSettings

    def declare(self, plan: TrainingPlan[TpuVmSettings]) -> None:
        from infra.targets.tpu_vm.declare import declare

        declare(plan)

    def needs(self, settings: TpuVmSettings) -> Needs:
        from infra.targets.tpu_vm import doctor

        return doctor.needs(settings)

    def hosts(self, stack: str) -> Hosts:
        from infra.targets.tpu_vm.hosts import TpuVmHosts

        return TpuVmHosts(stack)

    def billed(self, place: str, say: Callable[[str], None]) -> Sequence[Billed]:
        from infra.targets.tpu_vm import orphans

        return orphans.billed(place, say)

    def remove(self, names: Collection[str], say: Callable[[str], None]) -> Sequence[str]:
        from infra.targets.tpu_vm import orphans

        return orphans.remove(names, say)

    def resources(self) -> tuple[Any, ...]:
        from infra.targets.tpu_vm.provider.slice_ready_resource import SliceReadyResource
        from infra.targets.tpu_vm.provider.tpu_guard_resource import TpuStackGuardResource
        from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource

        return TpuStackGuardResource(), TpuRequestResource(), SliceReadyResource()


TARGET = TpuVm()
