"""Which accelerator a job's worker pools are, where, and on which terms. Pure.

Owns machineSpec, replicaCount, diskSpec and scheduling, and where they contradict each other. Refuses to own what runs
on the machines (containers.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from infra import durations, hardware
from infra.hardware import Accelerator
from infra.importing.draft import Draft, fields, shown
from infra.importing.job_text import JobNode
from infra.sentences import SentenceError
from infra.tiers import Tier

RESERVATION = re.compile(r"projects/[^/]+/zones/(?P<zone>[^/]+)/reservations/[^/]+")
_KEY = "compute.googleapis.com/reservation-name"


class ImportRefusedError(SentenceError, ValueError):
    """No stack can be made of the file; the message says why."""


@dataclass(frozen=True)
class Pool:
    """A worker pool, with its mappings in REST's spelling."""

    index: int
    node: JobNode
    machine: dict[str, JobNode]
    container: dict[str, JobNode]
    rest: dict[str, JobNode]
    replicas: int


@dataclass
class JobPlace:
    """What the file says of where it runs: each region or zone with the values that say so."""

    zones: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    regions: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


def pools(specs: JobNode, draft: Draft) -> list[Pool]:
    """Those that train. Raises ImportRefusedError where there is none."""
    found: list[Pool] = []
    nodes = specs.items or ([specs] if specs.entries else [])  # YAML of one pool is sometimes no list
    for index, node in enumerate(nodes):
        entries = fields(node, draft.account)
        replicas = entries.get("replicaCount")
        count = _count(replicas, draft) if replicas else (1 if entries else 0)
        if index > 1 and count:
            why = "pools 2 and 3 are parameter servers and evaluators, which MaxText has not; its hosts are not counted"
            draft.account.dropped(node.paths, f"workerPoolSpecs[{index}]", why)
            continue
        if not count:
            draft.account.dropped(node.paths, f"workerPoolSpecs[{index}]", "has no machine")
            continue
        parts = {key: fields(entries[key], draft.account) for key in ("machineSpec", "containerSpec") if key in entries}
        rest = {key: entry for key, entry in entries.items() if key not in (*parts, "replicaCount")}
        found.append(Pool(index, node, parts.get("machineSpec", {}), parts.get("containerSpec", {}), rest, count))
    if not found:
        raise ImportRefusedError("the file has no worker pool with a machine; a custom job has at least one")
    return found


def _count(node: JobNode, draft: Draft) -> int:
    if not re.fullmatch(r"\d{1,6}", node.text):
        draft.account.contradictory(node.paths, shown(node), "is no number of replicas; 1 holds")
        return 1
    return int(node.text)


def accelerator(found: Sequence[Pool], draft: Draft) -> Accelerator:
    """The row of all pools' machines together. Raises ImportRefusedError where the table has none."""
    machine_type = _the_same(found, "machineType", draft)
    if machine_type is None:
        raise ImportRefusedError("the file names no machineType; write one like a3-megagpu-8g into its machineSpec")
    hosts = sum(pool.replicas for pool in found)
    topology = _the_same(found, "tpuTopology", draft)
    row = _row(machine_type.text, hosts, topology.text if topology else "")
    for pool in found:
        _judge_machine(pool, row, draft)
        replicas = fields(pool.node, draft.account).get("replicaCount")
        if replicas is None:
            continue
        if pool.index == 0 and pool.replicas > 1 and pool.node.path:  # a launcher's has none, and is made two
            why = f"Vertex takes one replica in the first pool; {hosts} hosts in all hold"
            draft.account.contradictory(replicas.paths, shown(replicas), why, "accelerator")
        else:
            draft.account.renamed(
                replicas.paths, shown(replicas), "accelerator", f"{row.name} has {hosts} host{'s' * (hosts > 1)}"
            )
    draft.keys["accelerator"] = row.name
    return row


def _row(machine: str, hosts: int, topology: str) -> Accelerator:
    of_machine = [row for row in hardware.rows() if row.machine and row.machine.name == machine]
    if not of_machine:
        known = dict.fromkeys(row.machine.name for row in hardware.rows(hardware.Api.VERTEX) if row.machine)
        raise ImportRefusedError(
            f"machineType is '{machine}', which infra/hardware.yaml does not have; it has: {', '.join(known)}"
        )
    fitting = [row for row in of_machine if row.hosts == hosts and topology in ("", row.topology_text)]
    if not fitting:
        sizes = ", ".join(f"{row.name} ({row.hosts})" for row in of_machine)
        named = f" of topology {topology}" if topology else ""
        raise ImportRefusedError(
            f"the job has {hosts} hosts of {machine}{named}, and infra/hardware.yaml has no such size: {sizes}; change "
            f"replicaCount, or add a row"
        )
    return fitting[0]


def _the_same(found: Sequence[Pool], key: str, draft: Draft) -> JobNode | None:
    """A value of machineSpec; where pools differ, the first one's holds."""
    nodes = [pool.machine[key] for pool in found if key in pool.machine]
    if nodes and len({node.text for node in nodes}) > 1:
        paths = [path for node in nodes for path in node.paths]
        values = " and ".join(dict.fromkeys(node.text for node in nodes))
        draft.account.contradictory(paths, key, f"pools have {values}; {nodes[0].text} holds, since a slice is of one")
    return nodes[0] if nodes else None


def _judge_machine(pool: Pool, row: Accelerator, draft: Draft) -> None:
    account = draft.account
    for key, node in pool.machine.items():
        expected = {
            "machineType": row.machine.name if row.machine else "",
            "tpuTopology": row.topology_text or "",
            "acceleratorType": row.vertex_accelerator or "",
            "acceleratorCount": str(row.chips_per_host),
        }
        if key == "reservationAffinity":
            continue  # judged with the terms
        if key not in expected:
            account.dropped(node.paths, shown(node), f"a host of {row.name} is whole, and has nothing else to say")
        elif node.text == expected[key] and key in ("machineType", "tpuTopology"):
            account.renamed(node.paths, shown(node), "accelerator", row.name)
        elif node.text == expected[key]:
            account.dropped(node.paths, shown(node), f"follows from accelerator {row.name}")
        elif key != "machineType":
            machine = expected["machineType"]
            has = expected[key] or f"no {key}"
            account.contradictory(node.paths, shown(node), f"{machine} has {has}, and that holds", "accelerator")


def disks(found: Sequence[Pool], draft: Draft) -> None:
    """The boot disk, and whatever else a pool has beside its machine and its container."""
    sizes = [fields(pool.rest["diskSpec"], draft.account) for pool in found if "diskSpec" in pool.rest]
    for disk in sizes:
        size = disk.pop("bootDiskSizeGb", None)
        if size is not None and not size.text.isdecimal():
            draft.account.contradictory(size.paths, shown(size), "is no number of GB; left out")
        elif size is not None and draft.keys.get("boot_disk_gb", int(size.text)) != int(size.text):
            why = f"another pool has {draft.keys['boot_disk_gb']}, which holds: all hosts of a stack are alike"
            draft.account.contradictory(size.paths, shown(size), why, "boot_disk_gb")
        elif size is not None:
            draft.keep(size, "boot_disk_gb", int(size.text))
        for node in disk.values():
            draft.account.dropped(node.paths, shown(node), "the kind of disk follows from the machine")
    for pool in found:
        for key, node in pool.rest.items():
            if key in ("nfsMounts", "lustreMounts"):
                draft.account.dropped(node.paths, key, "text and checkpoints are in buckets; nothing is mounted")
            elif key == "pythonPackageSpec":
                why = "hosts install the locked packages of training/; packages of your own go into an overlay"
                draft.account.dropped(node.paths, key, why)


def terms(found: Sequence[Pool], scheduling: JobNode | None, draft: Draft, place: JobPlace) -> None:
    """Tier, reservation, times: keys of the stack."""
    rules = fields(scheduling, draft.account) if scheduling else {}
    reservation = _reservation(found, draft, place)
    _strategy(rules.pop("strategy", None), reservation, draft)
    flexible = draft.keys.get("tier") == Tier.FLEX_START
    if (timeout := rules.pop("timeout", None)) is not None:
        _duration(timeout, "timeout" if "timeout" in draft.known and not flexible else "max_runtime", draft)
    if flexible and "max_runtime" not in draft.keys:
        draft.keys["max_runtime"] = "7d"
        draft.assumed.append("max_runtime is 7d, since a job without a timeout runs that long at most")
    wait = rules.pop("maxWaitDuration", None)
    if wait is not None and flexible:
        _duration(wait, "max_wait_duration", draft)
    elif wait is not None:
        draft.account.dropped(wait.paths, shown(wait), "only tier flex-start looks for machines that long")
    why = "a training resumes from its last checkpoint, on whichever hosts it comes back"
    for node in rules.values():
        draft.account.dropped(node.paths, shown(node), why)


def _strategy(node: JobNode | None, reservation: JobNode | None, draft: Draft) -> None:
    tiers = {
        "STANDARD": Tier.ON_DEMAND, "ON_DEMAND": Tier.ON_DEMAND, "STRATEGY_UNSPECIFIED": Tier.ON_DEMAND,
        "SPOT": Tier.SPOT, "LOW_COST": Tier.SPOT, "FLEX_START": Tier.FLEX_START,
    }  # fmt: skip
    if reservation is not None:
        draft.keys["tier"] = Tier.RESERVED.value
    if node is None:
        return
    tier = tiers.get(node.text.upper())
    if tier is None:
        why = f"Vertex has no such strategy, only {', '.join(tiers)}; on-demand holds"
        draft.account.contradictory(node.paths, shown(node), why)
    elif reservation is None:
        why = {"ON_DEMAND": "deprecated; now STANDARD", "LOW_COST": "deprecated; now SPOT"}.get(node.text.upper(), "")
        draft.keep(node, "tier", tier.value, why)
    elif tier is Tier.ON_DEMAND:
        draft.account.renamed(node.paths, shown(node), "tier", "a reservation is tier reserved")
    else:
        why = f"a reservation goes with STANDARD, not {node.text}; the reservation holds, since it is paid for anyway"
        draft.account.contradictory(node.paths, shown(node), why, "tier")


def _reservation(found: Sequence[Pool], draft: Draft, place: JobPlace) -> JobNode | None:
    """The reservation that all hosts are taken of."""
    chosen: JobNode | None = None
    having = [pool for pool in found if "reservationAffinity" in pool.machine]
    for pool in having:
        parts = fields(pool.machine["reservationAffinity"], draft.account)
        kind = parts.pop("reservationAffinityType", None)
        values = parts.pop("values", None)
        names = values.items if values else []
        if kind is not None and kind.text not in ("SPECIFIC_RESERVATION", "") and not names:
            why = "names no reservation: hosts of a stack are of the one that it names, or of none"
            draft.account.dropped(pool.machine["reservationAffinity"].paths, shown(kind), why)
            continue
        for node in [kind, *parts.values()]:
            if node is not None and (node is kind or node.text == _KEY):
                draft.account.renamed(node.paths, shown(node), "reservation", "a stack names the reservation alone")
            elif node is not None:
                draft.account.dropped(node.paths, shown(node), f"is not {_KEY}, by which a reservation is named")
        if values is not None and not names:
            draft.account.contradictory(values.paths, "values", "is empty: no reservation is named; none holds")
        for node in names:
            chosen = chosen or node
            if node.text != chosen.text:
                why = f"a stack has one reservation; {chosen.text} holds"
                draft.account.contradictory(node.paths, shown(node), why, "reservation")
                continue
            draft.keep(node, "reservation", node.text)
            if zone := RESERVATION.fullmatch(node.text):
                place.zones.setdefault(zone["zone"], node.paths)
    if chosen is not None and 0 < len(having) < len(found):
        without = ", ".join(str(pool.index) for pool in found if pool not in having)
        why = f"pool {without} has no reservation, so its hosts would be on demand; all are of the reservation now"
        draft.account.contradictory(chosen.paths, shown(chosen), why, "reservation")
    return chosen


def _duration(node: JobNode, key: str, draft: Draft) -> None:
    found = re.fullmatch(r"(\d+)(?:\.\d+)?s", node.text)
    if not found:
        draft.account.contradictory(node.paths, shown(node), "is no length of time like 86400s; left out")
    elif int(found[1]) == 0 and key != "max_wait_duration":
        draft.account.dropped(node.paths, shown(node), "0 is no limit, as without the key")
    else:
        draft.keep(node, key, durations.text(int(found[1])) if int(found[1]) else "0s")
