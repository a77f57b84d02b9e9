"""The provider's resources of target `tpu-vm`; infra/providers/registry.py finds them here."""

from infra.targets.tpu_vm.provider.slice_ready_resource import SliceReadyResource
from infra.targets.tpu_vm.provider.tpu_guard_resource import TpuStackGuardResource
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource

RESOURCES = (TpuStackGuardResource(), TpuRequestResource(), SliceReadyResource())
