"""The hardware table: one frozen row per accelerator, resolved from hardware.yaml.

Owns what is known of an accelerator: counts, spelling, machine, speed, price, zones, quotas, and who says so. Refuses
to own what a stack does with it, and to guess: what no source says is None.
"""

from __future__ import annotations

import datetime
import difflib
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

from infra.sentences import SentenceError

TABLE = Path(__file__).with_name("hardware.yaml")
_AS_WRITTEN = (  # of a family
    *("gke_accelerator", "gke_version", "gke_boot_disk", "vertex_accelerator", "runtime_version", "data_nics"),
    "gpu_network",
)


class UnknownAcceleratorError(SentenceError, ValueError):
    """No row of that name; the message names the nearest."""


class Api(StrEnum):
    """Where an accelerator can be asked for."""

    LOCAL = "local"
    QUEUED_RESOURCE = "queued_resource"  # Cloud TPU API
    GKE = "gke"
    VERTEX = "vertex"
    KUBERNETES = "kubernetes"  # a cluster that already exists


class QuotaUnit(StrEnum):
    CHIPS = "chips"
    CORES = "cores"  # TensorCores


class QuotaScope(StrEnum):
    ZONE = "zone"
    REGION = "region"


@dataclass(frozen=True)
class Source:
    """Who says it. `date` is the source's own, None where it states none; `read` is when this project read it."""

    title: str
    date: datetime.date | None
    read: datetime.date | None = None


@dataclass(frozen=True)
class Machine:
    """The VM that is one host."""

    name: str
    chips: int
    vcpus: int | None = None
    memory_gb: int | None = None
    local_ssds: int | None = None


@dataclass(frozen=True)
class Price:
    """US dollars per chip and hour in a region; None where no source says it."""

    region: str
    on_demand_usd: float | None
    spot_usd: float | None
    source: Source


@dataclass(frozen=True)
class Quota:
    """A quota of a service that must hold `units` of a row, per zone or region of a project.

    service: without .googleapis.com. dimension: `key=value`, which picks a line of it.
    """

    api: Api
    service: str
    on_demand: str | None
    spot: str | None
    dimension: str | None
    unit: QuotaUnit
    units: int
    scope: QuotaScope
    source: Source


@dataclass(frozen=True)
class Accelerator:
    """A row, resolved. Counts are per slice; None is unknown, or means nothing here (`applies`)."""

    name: str
    family: str
    title: str
    platform: str  # the extra of training/ that its hosts install, and MaxText's `hardware`
    chip: str  # a row of `chips`; empty where it is of no make
    chips: int
    hosts: int
    devices_per_chip: int
    cores_per_chip: int  # TensorCores; 1 where the word means nothing
    topology: tuple[int, ...] | None  # chips along each axis of a TPU slice
    machine: Machine | None
    apis: tuple[Api, ...]
    accelerator_type: str | None  # of the Cloud TPU API
    gke_accelerator: str | None  # node label of a TPU, guest accelerator of a GPU
    vertex_accelerator: str | None  # Vertex AI's AcceleratorType
    runtime_version: str | None  # TPU VM image
    nic_gbits_per_host: float | None
    data_nics: int | None  # network interfaces of a GPU host beside the primary one
    zones: tuple[str, ...]
    zones_documented: tuple[str, ...]  # those that Google's own pages name
    prices: tuple[Price, ...]
    quotas: tuple[Quota, ...]
    sources: tuple[Source, ...]
    hbm_gib: float | None = None  # per chip, as all that follow
    hbm_gbytes_per_s: float | None = None
    peak_bf16_tflops: float | None = None
    peak_int8_tops: float | None = None
    peak_fp8_tflops: float | None = None
    ici_gbytes_per_s: float | None = None  # bidirectional; NVLink on a GPU node
    gke_version: str | None = None  # the oldest of GKE that has it, where a source says one
    gke_boot_disk: str | None = None  # the kind of disk that its nodes start from, where it is not any
    gke_workload_policy: bool = False  # whether a slice of several hosts is placed by one, not by a compact placement
    gpu_network: str | None = None  # by which NCCL reaches other hosts: a row of infra/pods/gpu_networks.yaml
    emulated: bool = False  # nobody sells it: hosts of `slipway emulate tpu --boot` have it

    @property
    def devices(self) -> int:
        """JAX devices of a slice."""
        return self.chips * self.devices_per_chip

    @property
    def devices_per_host(self) -> int:
        return self.devices // self.hosts

    @property
    def chips_per_host(self) -> int:
        return self.chips // self.hosts

    @property
    def topology_text(self) -> str | None:
        """`4x8`, as the TPU API and GKE spell it."""
        return "x".join(map(str, self.topology)) if self.topology else None

    def price(self, region: str) -> Price | None:
        return next((price for price in self.prices if price.region == region), None)

    def quota(self, api: Api) -> Quota | None:
        return next((quota for quota in self.quotas if quota.api is api), None)

    def applies(self, field: str) -> bool:
        """Whether a None of `field` means unknown. A CPU has no HBM; what GKE alone offers has no Cloud TPU type."""
        if self.platform == "cpu":
            return False
        return _NEEDED_BY.get(field, self.platform) in (self.platform, *self.apis)


# What means something on one platform or through one API only.
_NEEDED_BY: dict[str, str] = {
    "topology_text": "tpu",
    "data_nics": "gpu",
    "accelerator_type": Api.QUEUED_RESOURCE,
    "runtime_version": Api.QUEUED_RESOURCE,
    "gke_accelerator": Api.GKE,
    "vertex_accelerator": Api.VERTEX,
}


def find(name: str) -> Accelerator:
    """The row of `name`. Raises UnknownAcceleratorError with the nearest names."""
    if name in _sizes():
        return _row(name)
    raise UnknownAcceleratorError(_unknown(name))


def spelled(name: str) -> str:
    """The table's name of what is spelled by its topology, like tpu7x-2x2x2; any other name as it is."""
    family, _, topology = name.rpartition("-")
    if family not in families() or not re.fullmatch(r"\d+(x\d+)+", topology):
        return name
    sizes: dict[str, Any] = _document()["families"][family]["sizes"]
    return next((size for size, written in sizes.items() if _size(written).get("topology") == topology), name)


def gke_flex_start_version(platform: str) -> str:
    """The oldest version of GKE that starts nodes of a platform by flex-start."""
    return str(_document()["gke_flex_start_version"][platform])


def rows(pattern: str = "") -> tuple[Accelerator, ...]:
    """Rows whose name is `pattern`; else whose family, platform or API is; else whose name contains it.

    Emulated ones are among them only by their name or family.
    """
    if pattern in _sizes():
        return (_row(pattern),)
    every = tuple(row for row in map(_row, _sizes()) if not row.emulated or row.family == pattern)
    of_kind = tuple(row for row in every if pattern in (row.family, row.platform, *row.apis))
    return of_kind or tuple(row for row in every if pattern in row.name)


def emulated() -> tuple[Accelerator, ...]:
    """Rows that only an emulator of their API has."""
    return tuple(row for row in map(_row, _sizes()) if row.emulated)


def families() -> tuple[str, ...]:
    return tuple(_document()["families"])


@cache
def _document() -> dict[str, Any]:
    # libyaml's loader where the wheel has it: 6 ms instead of 45, at every preview.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return cast(dict[str, Any], yaml.load(TABLE.read_text(encoding="utf-8"), loader))  # noqa: S506 (both are safe)


@cache
def _sizes() -> dict[str, str]:
    """The family of every name, in the table's order."""
    return {size: name for name, family in _document()["families"].items() for size in family["sizes"]}


@cache
def _row(name: str) -> Accelerator:
    family_name = _sizes()[name]
    family: dict[str, Any] = _document()["families"][family_name]
    size = _size(family["sizes"][name])
    topology = tuple(int(axis) for axis in size["topology"].split("x")) if "topology" in size else None
    machine_name = size.get("machine_type", family.get("machine_type"))
    machine = Machine(name=machine_name, **family["machine_types"][machine_name]) if machine_name else None
    chips_per_host: int = machine.chips if machine else size.get("chips_per_host") or family["chips_per_host"]
    hosts = math.prod(topology) // chips_per_host if topology else size["hosts"]
    chips = hosts * chips_per_host
    cores_per_chip = family.get("cores_per_chip", 1)
    apis = tuple(Api(api) for api in size.get("apis", family["apis"]))
    type_of_api = f"{family.get('accelerator_type')}-{name.rpartition('-')[2]}"
    nic: float | None = family.get("nic_gbits_per_host")  # sources state it per chip for TPUs, per VM for GPUs
    if "nic_gbits_per_chip" in family:
        nic = family["nic_gbits_per_chip"] * chips_per_host
    chip: dict[str, Any] = dict(_document()["chips"].get(family.get("chip"), {}))
    documented: set[str] = set(family.get("zones_documented", ()))
    return Accelerator(
        name=name,
        family=family_name,
        title=family["title"],
        platform=family["platform"],
        chip=family.get("chip", ""),
        chips=chips,
        hosts=hosts,
        devices_per_chip=family["devices_per_chip"],
        cores_per_chip=cores_per_chip,
        topology=topology,
        machine=machine,
        apis=apis,
        accelerator_type=type_of_api if Api.QUEUED_RESOURCE in apis else None,
        nic_gbits_per_host=nic,
        zones=tuple(sorted(documented.union(family.get("zones_listed", ())))),
        zones_documented=tuple(sorted(documented)),
        prices=_prices(family, chips_per_host),
        quotas=_quotas(family, apis, chips, cores_per_chip),
        sources=_sources(chip.pop("source", ()), family["source"]),
        emulated=family.get("emulated", False),
        gke_workload_policy=family.get("gke_workload_policy", False),
        **{key: family.get(key) for key in _AS_WRITTEN},
        **chip,
    )


def _size(written: str | int | dict[str, Any]) -> dict[str, Any]:
    """A size as a mapping: `4x8` is a topology, `2` a number of hosts."""
    if isinstance(written, dict):
        return written
    return {"hosts": written} if isinstance(written, int) else {"topology": written}


def _prices(family: dict[str, Any], chips_per_host: int) -> tuple[Price, ...]:
    """Per chip, also where the source prices the whole VM."""
    if "prices" not in family:
        return ()
    stated = family["prices"]
    share = {"chip": 1, "host": chips_per_host}[stated["per"]]
    (source,) = _sources(stated["source"])
    return tuple(
        Price(region, *(usd if usd is None else usd / share for usd in pair), source=source)
        for region, pair in stated["regions"].items()
    )


def _quotas(family: dict[str, Any], apis: tuple[Api, ...], chips: int, cores_per_chip: int) -> tuple[Quota, ...]:
    return tuple(
        Quota(
            api=Api(api),
            service=_document()["quota_services"][api],
            on_demand=_of_size(stated, chips).get("on_demand"),
            spot=_of_size(stated, chips).get("spot"),
            dimension=stated.get("dimension"),
            unit=QuotaUnit(stated["unit"]),
            units=chips * (cores_per_chip if stated["unit"] == QuotaUnit.CORES else 1),
            scope=QuotaScope(stated["scope"]),
            source=_sources(stated["source"])[0],
        )
        for api, stated in family.get("quotas", {}).items()
        if api in apis
    )


def _of_size(stated: dict[str, Any], chips: int) -> dict[str, Any]:
    """Small slices may be counted against a quota of their own."""
    serving = stated.get("serving", {})
    return serving if chips <= serving.get("up_to_chips", 0) else stated


def _sources(*written: str | list[str]) -> tuple[Source, ...]:
    keys = [key for part in written for key in ([part] if isinstance(part, str) else part)]
    return tuple(Source(**_document()["sources"][key]) for key in dict.fromkeys(keys))


def _unknown(name: str) -> str:
    """What is wrong with a name, and what to write instead."""
    prefix, _, suffix = name.rpartition("-")
    number = int(suffix) if re.fullmatch("[0-9]{1,9}", suffix) else None
    refused: dict[str, Any] = _document()["refused"]
    if (generation := prefix or name) in refused:
        return _refused(name, generation, number and number // refused[generation]["cores_per_chip"])
    size, _, slices = name.rpartition("x")
    if size in _sizes() and slices.isdecimal():
        return f"accelerator '{name}' is {slices} slices; write `accelerator: {size}` and `slices: {slices}`"
    respelled = [row.name for row in rows() if name in (row.accelerator_type, f"{row.family}-{row.topology_text}")]
    nearest = respelled or _neighbours(prefix, number) or difflib.get_close_matches(name, _sizes(), n=2, cutoff=0)
    return (
        f"accelerator '{name}' is not in infra/hardware.yaml; nearest: {', '.join(nearest)}. "
        f"see `slipway hardware`; add a row or fix the stack"
    )


def _refused(name: str, generation: str, chips: int | None) -> str:
    """A generation that is not supported, and the sizes with as many chips; of two equally near, the larger."""
    says = f"accelerator '{name}' is TPU {generation}, which is not supported"
    tpus = rows("tpu")
    if not chips:
        newer = ", ".join(dict.fromkeys(row.family for row in tpus))
        return f"{says}; use a size of {newer}: see `slipway hardware tpu`"
    nearest = min((row.chips for row in tpus), key=lambda has: (abs(has - chips), -has))
    sizes = ", ".join(row.name for row in tpus if row.chips == nearest)
    return f"{says}; it has {chips} chips, nearest: {sizes} ({nearest} chips)"


def _neighbours(family: str, number: int | None) -> list[str]:
    """The two sizes of a family that are nearest to a number."""
    if number is None or family not in families():
        return []
    names: list[str] = list(_document()["families"][family]["sizes"])
    return sorted(names, key=lambda name: abs(int(name.rpartition("-")[2]) - number))[:2]
