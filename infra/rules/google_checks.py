"""What Google's provider lets pass at a preview and Google refuses minutes into an `up`: pure checks of single values.

Owns: forms of names, labels, places and sizes (from the APIs' reference pages), machines, accelerators and topologies
(from infra/hardware.yaml). Each returns None or what is wrong and what to write. Refuses to own which resource is asked
for what (infra/rules/guardrails.py).
"""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Mapping, Set

from infra import hardware, names

MTU = range(1300, 8897)
_PRIVATE = tuple(ipaddress.IPv4Network(net) for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_MULTI_REGIONS = frozenset(("us", "eu", "asia", "nam4", "eur4", "eur5", "eur7", "eur8", "asia1", "global"))


def label_problem(labels: Mapping[str, object]) -> str | None:
    """Keys and values as most APIs take them; values that are not known yet pass."""
    for key, value in labels.items():
        if not names.LABEL_KEY.fullmatch(key):
            return f"label key {key!r} is not 1-63 lower-case letters, digits, '_' and '-' with a letter first"
        if isinstance(value, str) and not names.LABEL_VALUE.fullmatch(value):
            return f"label {key} is {value!r}; give at most 63 lower-case letters, digits, '_' and '-'"
    return f"{len(labels)} labels; give at most 64" if len(labels) > 64 else None


def bucket_name_problem(name: str) -> str | None:
    if not names.BUCKET_NAME.fullmatch(name):
        return (
            f"bucket name {name!r} ({len(name)} characters) is not 3-63 lower-case letters, digits, '-', '_' and '.' "
            f"with a letter or digit at both ends"
        )
    if name.startswith("goog") or "google" in name:
        return f"bucket name {name!r} holds 'google', which Cloud Storage keeps for itself; give another"
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", name) or ".." in name:
        return f"bucket name {name!r} reads like an address; leave the dots out"
    return None


def location_problem(key: str, place: str) -> str | None:
    """key: `zone`, `region` or `location`, which may be either or several regions."""
    allowed = names.REGION.pattern + {"zone": "-[a-z]", "region": ""}.get(key, "(-[a-z])?")
    if re.fullmatch(allowed, place) or (key == "location" and place.lower() in _MULTI_REGIONS):
        return None
    if key == "location" and re.fullmatch(allowed, place.lower()):
        return None  # Cloud Storage spells regions with capitals
    what = {"zone": "a zone, like us-central1-a", "region": "a region, like us-central1"}
    return f"{key} is {place!r}; give {what.get(key, 'a region or zone, like us-central1 or us-central1-a')}"


def region_problem(region: str) -> str | None:
    """A foundation is where accelerators are, so its region is one of the hardware table's."""
    known = sorted({zone.rpartition("-")[0] for row in hardware.rows() for zone in row.zones})
    if problem := names.region_problem(region):
        return problem
    if region in known:
        return None
    nearest = difflib.get_close_matches(region, known, n=1, cutoff=0)
    return (
        f"region {region!r} has no zone in infra/hardware.yaml; nearest: {', '.join(nearest)}. Fix it, or add its "
        f"zones to the rows of what is sold there"
    )


def mtu_problem(mtu: int) -> str | None:
    return None if mtu in MTU else f"mtu is {mtu}; give {MTU.start} to {MTU.stop - 1}"


def subnet_problem(cidr: str) -> str | None:
    """A subnet for hosts has private addresses and room for a slice."""
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        return f"{cidr!r} is no range of IPv4 addresses ({error}); write one like 10.0.0.0/20"
    if not any(network.subnet_of(private) for private in _PRIVATE):
        return f"{cidr!r} is not private; write a range in {', '.join(map(str, _PRIVATE))}"
    if "/" not in cidr:
        return f"{cidr!r} is one address, not a range of them; write one like {network.network_address}/20"
    if network.prefixlen > 26:
        room = max(network.num_addresses - 4, 0)  # four of each range are Google's
        return f"{cidr!r} has room for {room} hosts; write a wider range, like 10.0.0.0/20"
    return None


def machine_type_problem(machine: str) -> str | None:
    """A machine with accelerators must have a row in the hardware table; of others only the form is checked."""
    known = {row.machine.name for row in hardware.rows() if row.machine}
    has_form = re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", machine)
    of_known_series = machine.partition("-")[0] in {name.partition("-")[0] for name in known}
    return _unlisted("machine type", machine, known) if of_known_series or not has_form else None


def accelerator_type_problem(accelerator_type: str) -> str | None:
    """An accelerator type as the Cloud TPU API spells it: `v5litepod-16`. Settings refuse what only an emulator has."""
    known = {row.accelerator_type for row in (*hardware.rows(), *hardware.emulated()) if row.accelerator_type}
    return _unlisted("accelerator type", accelerator_type, known)


def guest_accelerator_problem(accelerator: str) -> str | None:
    """An accelerator as VMs and node pools spell it: `nvidia-h100-mega-80gb`."""
    known = {row.gke_accelerator for row in hardware.rows("gpu") if row.gke_accelerator}
    return _unlisted("accelerator", accelerator, known)


def topology_problem(topology: str, machine: str | None, hosts: int | None) -> str | None:
    """machine and hosts: None where they are not known; with both, the number of hosts has to be the topology's."""
    known = {
        row.topology_text: row.hosts
        for row in hardware.rows("tpu")
        if row.topology_text and row.machine and machine in (None, row.machine.name)
    }
    if not known:
        return None  # the machine itself is refused, or it is no TPU's
    if topology not in known:
        of = f" of {machine}" if machine else ""
        return f"TPU topology {topology!r} is none{of} in infra/hardware.yaml; nearest: {_near(topology, known.keys())}"
    needed = known[topology]
    if machine and hosts not in (None, needed):
        return f"TPU topology {topology} of {machine} has {needed} hosts, but nodeCount is {hosts}; give {needed}"
    return None


def _unlisted(what: str, name: str, known: Set[str]) -> str | None:
    return None if name in known else f"{what} {name!r} is not in infra/hardware.yaml; nearest: {_near(name, known)}"


def _near(text: str, known: Set[str]) -> str:
    return ", ".join(difflib.get_close_matches(text, sorted(known), n=3, cutoff=0))
