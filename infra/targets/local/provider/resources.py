"""The provider's resources of target `local`; infra/providers/registry.py finds them here."""

from infra.targets.local.provider.local_guard_resource import LocalStackGuardResource
from infra.targets.local.provider.local_host_resource import LocalHostResource

RESOURCES = (LocalStackGuardResource(), LocalHostResource())
