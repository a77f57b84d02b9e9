"""What a reviewer should know of a stack that makes a GKE cluster besides what is said of every stack. Pure."""

from __future__ import annotations

from infra.gke.settings import GkeSettings, PoolWorkload
from infra.tiers import Tier


def notices(settings: GkeSettings) -> tuple[str, ...]:
    """What is made, what of it is billed besides the chips, and what runs there."""
    row = settings.row
    assert row.machine, f"{row.name} has no machine"
    pools = f"{settings.slices} {'pool' if settings.slices == 1 else 'pools'} of {row.hosts} x {row.machine.name}"
    system = f"a {settings.system_machine_type} in each of its zones"
    where = (
        f"cluster {settings.cluster_name} in {settings.place}: {pools}; besides the chips, it and {system} are billed"
    )
    if settings.workload is PoolWorkload.NONE:
        return (where, "workload is none: nothing is run there")
    group = settings.group
    each = ", ".join(f"{count} {resource}" for resource, count in group.resources.items())
    waits = ", which wait until GKE has nodes for them" if settings.tier is Tier.FLEX_START else ""
    pods = f"{group.hosts} pods of {group.image}, {each} each"
    return (where, f"namespace {settings.namespace}: {pods}, as {settings.pod_email}{waits}")
