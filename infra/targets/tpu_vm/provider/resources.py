"""The provider's resources of target `tpu-vm`; its contract hands them to infra/providers/registry.py."""

from infra.targets.tpu_vm.provider.slice_ready_resource import SliceReadyResource
from infra.targets.tpu_vm.provider.tpu_guard_resource import TpuStackGuardResource
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource

RESOURCES = (TpuStackGuardResource(), TpuRequestResource(), SliceReadyResource())
