"""The provider's resources of target `local`; its contract hands them to infra/providers/registry.py."""

from infra.targets.local.provider.local_guard_resource import LocalStackGuardResource
from infra.targets.local.provider.local_host_resource import LocalHostResource

RESOURCES = (LocalStackGuardResource(), LocalHostResource())
