"""What a script, a test or the page does to the simulated cloud, and what its hosts publish.

Owns the levers: loss, health, hosts, capacity, refusals, quota, reservations. Refuses to own what clients ask for
(cloud.py) and what follows (transitions.py).

Seen (public reports, read 2026-11-21): node states REPAIRING and UNKNOWN and health UNHEALTHY_MAINTENANCE under an
ACTIVE request; hosts with guest attributes of their own. Our choice: when a script is not asked, none of it happens.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable

from infra.emulators.tpu_api import checks, messages
from infra.emulators.tpu_api.checks import Place
from infra.emulators.tpu_api.errors import Code
from infra.emulators.tpu_api.ledger import Ledger
from infra.emulators.tpu_api.pools import QuotaTier, ZoneRefusal
from infra.emulators.tpu_api.pretended_hosts import booted_bundle
from infra.emulators.tpu_api.records import GuestAttribute, Initiator, Node, NodeHost, NodeState, RequestState
from infra.emulators.tpu_api.transitions import Transitions
from infra.hardware import families
from infra.tiers import Tier
from infra.vm_hosts import guest_report
from training.host_status import HostStatus


class Levers:
    """Every lever raises ValueError for a name that does not exist; the error lists those that do."""

    def __init__(self, ledger: Ledger, transitions: Transitions) -> None:
        self.ledger = ledger
        self.transitions = transitions
        # Of a host that boots, by its instance's name: as it writes it for itself, which is more often than it reports.
        self.status_of: Callable[[str], HostStatus | None] = lambda instance: None

    # --- requests and nodes ---

    def preempt(self, name: str) -> None:
        """Takes a spot request or node away. Raises ValueError if it is not spot or not there."""
        node, request = self.ledger.nodes.get(name), self.ledger.requests.get(name)
        request = request or (self.ledger.requests.get(node.request) if node else None)
        lost = [node] if node else self.ledger.nodes_of(request) if request else []
        if not lost:
            raise ValueError(f"{name} has nothing to preempt; nodes: {', '.join(self.ledger.nodes) or 'none'}")
        if lost[0].tier is not Tier.SPOT:
            raise ValueError(f"{name} is {lost[0].tier}: only spot is preempted")
        for lost_node in lost:
            self.transitions.move_node(lost_node, NodeState.PREEMPTED, None)
        if request and request.state in (RequestState.PROVISIONING, RequestState.ACTIVE):
            self.transitions.suspend(request, Initiator.SERVICE)
        self.transitions.settle()

    def fail_request(self, name: str, message: str) -> None:
        """A late-discovered problem: the request is FAILED and its nodes are gone."""
        self.transitions.fail(_known("queued resource", name, self.ledger.requests), Code.INTERNAL, message)
        self.transitions.settle()

    # --- hosts ---

    def guest_attributes(self, node: Node, worker: int) -> list[GuestAttribute]:
        """What a host has published until now: first what its guest agent says of it, if it has booted."""
        host, ready = node.hosts[worker], self.ledger.host_ready
        published = [*(_of_guest_agent(node, worker) if self.ledger.behaviour.guest_agent else ()), *host.attributes]
        is_due = host.ready_at_s is not None and host.ready_at_s <= self.ledger.now_s
        if is_due and node.state is NodeState.READY and _key(ready) not in map(_key, host.attributes):
            published.append(host.says(ready))
        return published

    def hosts_ready(self, node: Node) -> int:
        return sum(self.is_ready(node, worker) for worker in range(len(node.hosts)))

    def is_ready(self, node: Node, worker: int) -> bool:
        if self.ledger.boots(node.accelerator):
            return bool(guest_report.readiness(self._said(node, worker), "").ready)
        return node.hosts[worker].says(self.ledger.host_ready) in self.guest_attributes(node, worker)

    def report(self, node: Node, worker: int) -> guest_report.Report | None:
        """What a host has said last of its training."""
        return next(filter(None, map(guest_report.parse, self._said(node, worker))), None)

    def _said(self, node: Node, worker: int) -> list[str]:
        return [each.value for each in node.hosts[worker].attributes if _key(each) == _key(self.ledger.host_ready)]

    def set_host_ready(self, node: str, worker: int | None = None, ready: bool = True) -> None:
        """A host, or all of a node, publishes that it is ready, or takes it back."""
        known = _known("node", node, self.ledger.nodes)
        for host in known.hosts if worker is None else [known.hosts[worker]]:
            host.ready_at_s = None
            said = [host.says(self.ledger.host_ready)] if ready else []
            host.attributes = _without(self.ledger.host_ready, host) + said
        self.ledger.log(node, f"{self.hosts_ready(known)}/{len(known.hosts)} hosts ready")

    def reboot(self, node: str, worker: int | None = None) -> None:
        """A host, or all of a node, starts again: on the disk that it has, with the metadata of now."""
        known = _known("node", node, self.ledger.nodes)
        bundle = booted_bundle(known)
        for host in known.hosts if worker is None else [known.hosts[worker]]:
            host.boot(bundle)
        self.ledger.log(node, f"reboot of {'all hosts' if worker is None else f'worker {worker}'}")

    def set_network(self, node: str, worker: int, up: bool) -> None:
        """Cuts a host that boots off from the others, or joins it again; it reaches the cloud's services either way."""
        known = _known("node", node, self.ledger.nodes)
        if not self.ledger.boots(known.accelerator) or self.ledger.hosts_on_loopback:
            raise ValueError(f"the hosts of {node} have no network of their own (docs/emulated-hosts.md)")
        known.hosts[worker].connected = up
        self.ledger.log(node, f"worker {worker} {'is connected' if up else 'is cut off'}")

    def set_guest_attribute(self, node: str, worker: int, attribute: GuestAttribute) -> None:
        host = _known("node", node, self.ledger.nodes).hosts[worker]
        host.attributes = [*_without(attribute, host), attribute]
        self.ledger.revision += 1

    def remove_guest_attribute(self, node: str, worker: int, namespace: str, key: str) -> None:
        host = _known("node", node, self.ledger.nodes).hosts[worker]
        host.attributes = _without(GuestAttribute(namespace, key, ""), host)
        self.ledger.revision += 1

    def set_node_state(self, node: str, state: NodeState, health: str = "HEALTHY", why: str = "") -> None:
        """For example REPAIRING, UNKNOWN, or READY with UNHEALTHY_MAINTENANCE; its request stays as it is.

        Hosts that are pretended keep what they have published. Others lose power, and boot where it is READY again.
        """
        known = _known("node", node, self.ledger.nodes)
        _check_known("health", health, tuple(messages.enum_names("Node", "Health")))
        if self.ledger.boots(known.accelerator) and state is NodeState.READY is not known.state:
            self.reboot(node)
        known.state, known.health, known.health_description = state, health, why
        self.ledger.log(node, f"{state}, {health}{why and ': '}{why}")

    def set_maintenance(self, node: str, in_s: float | None, takes_s: float = 3600, ongoing: bool = False) -> None:
        """Announces a maintenance that begins `in_s` from now; None takes it back. It does nothing to the node.

        Hosts that boot hear of one that is ongoing by their metadata, as of the end that it would be.
        """
        known = _known("node", node, self.ledger.nodes)
        known.maintenance = {}
        if in_s is not None:
            start, end = (messages.time_text(self.ledger.now_s + seconds) for seconds in (in_s, in_s + takes_s))
            known.maintenance = {
                "type": "SCHEDULED",
                "canReschedule": True,
                "windowStartTime": start,
                "windowEndTime": end,
                "latestWindowStartTime": start,
                "maintenanceStatus": "ONGOING" if ongoing else "PENDING",
            }
        self.ledger.log(node, f"maintenance from {known.maintenance.get('windowStartTime', 'never')}")

    # --- what there is to take ---

    def set_capacity(self, zone: str, accelerator: str, chips: int | None) -> None:
        """Chips of a family or a size in a zone; None is no limit. What runs stays."""
        _check_known("zone", zone, checks.zones())
        _check_known("accelerator", accelerator, (*families(), *(row.name for row in checks.offered())))
        self.ledger.pools.set_capacity(zone, accelerator, chips)
        self.ledger.log(zone, f"capacity of {accelerator}: {'unlimited' if chips is None else f'{chips} chips'}")
        self.transitions.settle()

    def stockout(self, zone: str, accelerator: str) -> None:
        """The zone has no more chips to give."""
        self.set_capacity(zone, accelerator, 0)

    def refuse(self, zone: str, how: ZoneRefusal | None, accelerator: str = "", stays: bool = False) -> None:
        """What a zone will not give: a family or a size, "" all; None lifts it.

        Where an operation says so, nothing stays of the request, or with `stays` the request, FAILED.
        """
        _check_known("zone", zone, checks.zones())
        _check_known("accelerator", accelerator, ("", *families(), *(row.name for row in checks.offered())))
        self.ledger.pools.set_refused(zone, accelerator, how, stays)
        self.ledger.log(zone, f"refuses {accelerator or 'everything'}: {how or 'no more'}")
        self.transitions.settle()

    def set_quota(
        self, project: str, place: str, family: str, units: int | None, tier: QuotaTier = QuotaTier.ON_DEMAND
    ) -> None:
        """In the unit of the hardware table; `place` is a zone or a region; None is no limit."""
        regions = tuple(dict.fromkeys(zone.rpartition("-")[0] for zone in checks.zones()))
        _check_known("place", place, (*checks.zones(), *regions))
        _check_known("family", family, families())
        self.ledger.pools.set_quota(project, place, family, tier, units)
        self.ledger.log(f"projects/{project}", f"quota of {family} {tier} in {place}: {units}")

    def set_reservation(self, name: str, family: str, chips: int | None) -> None:
        """`name` is projects/P/locations/Z/reservations/R; None removes it."""
        if not re.fullmatch(r"projects/[^/]+/locations/[^/]+/reservations/[^/]+", name):
            raise ValueError(f"{name} is not projects/<project>/locations/<zone>/reservations/<name>")
        _check_known("zone", Place.of(name).zone, checks.zones())
        _check_known("family", family, families())
        self.ledger.pools.set_reservation(self.ledger.by_id(name), family, chips)
        self.ledger.log(name, f"reservation of {chips} chips of {family}")
        self.transitions.settle()


def _known[Record](what: str, name: str, records: dict[str, Record]) -> Record:
    if name not in records:
        raise ValueError(f"there is no {what} {name}; there are: {', '.join(records) or 'none'}")
    return records[name]


def _check_known(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        nearest = ", ".join(difflib.get_close_matches(value, known, n=3, cutoff=0))
        raise ValueError(f"{what} {value!r} is not one that the emulator knows; nearest: {nearest}")


def _of_guest_agent(node: Node, worker: int) -> list[GuestAttribute]:
    """Seen: that there are host keys, and a `hostname` that is the Compute Engine instance's name and looks like this.

    Its namespace and the keys themselves are our choice, and that they are there from READY on.
    """
    if node.state not in (NodeState.READY, NodeState.REPAIRING, NodeState.UNKNOWN):
        return []
    return [
        GuestAttribute("guestInspector", "hostname", instance_name(node, worker)),
        GuestAttribute("hostkeys", "ssh-ed25519", f"AAAAC3NzaC1lZDI1NTE5AAAAI{_digest(node)[:43]}"),
    ]


def instance_name(node: Node, worker: int) -> str:
    """Of the Compute Engine instance that a host is: another node of the same name has others."""
    return f"t1v-n-{_digest(node)[:8]}-w-{worker}"


def _digest(node: Node) -> str:
    return hashlib.sha256(f"{node.name} {node.create_s}".encode()).hexdigest()


def _key(attribute: GuestAttribute) -> tuple[str, str]:
    return attribute.namespace, attribute.key


def _without(attribute: GuestAttribute, host: NodeHost) -> list[GuestAttribute]:
    return [other for other in host.attributes if _key(other) != _key(attribute)]
