"""What is refused before anything is made: ids, zones, accelerator types, runtime versions, labels, parts.

Owns the rules that need only the call and the hardware table. Refuses to own those that need the cloud's state.
Rules come from the client's docstrings and the hardware table; what they leave open is marked "our choice".
"""

from __future__ import annotations

import hashlib
import re
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

from infra import hardware
from infra.emulators.tpu_api import errors, messages
from infra.emulators.tpu_api.errors import ApiError, Code
from infra.emulators.tpu_api.records import Extras
from infra.hardware import Accelerator, Api
from infra.tiers import Tier

# ids of requests and nodes: the regex of the client's docstrings
_ID = re.compile(r"[A-Za-z0-9_.~+%-]+")
# labels, tags and metadata: Google Cloud's and Compute Engine's general limits (our choice: the service's are unread)
_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_TAG = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
_MAX_LABELS = 64
_MAX_METADATA_VALUE = 256 * 1024
_MAX_METADATA = 512 * 1024
_MAX_DESCRIPTION = 512
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
# Beside those of the hardware table; its rows name the newest only.
_OTHER_RUNTIMES = ("tpu-ubuntu2204-base", "tpu-vm-tf-2.17.0-pjrt", "v2-tpuv5-litepod")
_OUTPUT_ONLY = (
    *("name", "id", "state", "health_description", "create_time", "network_endpoints", "api_version", "symptoms"),
    *("queued_resource", "multislice_node"),
)
_PROVISIONING_MODELS = ("STANDARD", "SPOT", "RESERVATION_BOUND", "FLEX_START")
_LONGEST_RUN_S = 7 * 86_400.0
MUTABLE = ("description", "tags", "labels", "metadata", "network_config.enable_external_ips")


@dataclass(frozen=True)
class Place:
    """A zone of a project."""

    project: str
    zone: str

    @property
    def name(self) -> str:
        return f"projects/{self.project}/locations/{self.zone}"

    @property
    def numbered_name(self) -> str:
        """The name with the project's number, as the service shows it in parents and in a node's queuedResource."""
        return f"projects/{project_number(self.project)}/locations/{self.zone}"

    @staticmethod
    def of(name: str) -> Place:
        """The place in a name of something below a location, or of the location itself."""
        parts = name.split("/")
        return Place(parts[1], parts[3])


@dataclass(frozen=True)
class Wanted:
    """What a valid queued resource asks for, and the names its nodes will have."""

    row: Accelerator
    tier: Tier  # a reserved one draws on a reservation; in the message it is `guaranteed` or none
    node_names: tuple[str, ...]
    reservation: str = ""
    runs_for_s: float | None = None


def project_number(project: str) -> str:
    """The number of a project: twelve digits derived from its id. A number in place of the id is returned as it is."""
    if project.isdecimal():
        return project
    return str(10**11 + int.from_bytes(hashlib.sha256(project.encode()).digest()) % (9 * 10**11))


@cache
def offered() -> tuple[Accelerator, ...]:
    return hardware.rows(Api.QUEUED_RESOURCE)


@cache
def zones() -> tuple[str, ...]:
    return tuple(sorted({zone for row in offered() for zone in row.zones}))


@cache
def runtime_versions() -> tuple[str, ...]:
    return tuple(sorted({row.runtime_version for row in offered() if row.runtime_version} | {*_OTHER_RUNTIMES}))


def check_id(kind: str, name: str) -> None:
    if not _ID.fullmatch(name):
        raise invalid(kind, f"{name!r} does not match ^{_ID.pattern}$")


def check_request_id(request_id: str) -> None:
    if request_id and (not _UUID.fullmatch(request_id) or not request_id.strip("0-")):
        raise invalid("request_id", f"{request_id!r} is not a UUID other than zero")


def check_node(place: Place, node: Any) -> Accelerator:
    """The row of a node's accelerator. Raises ApiError."""
    row = _row(place, node)
    if not node.runtime_version:
        raise invalid("node.runtime_version", "it is required")
    if node.runtime_version not in runtime_versions():
        raise invalid("node.runtime_version", f"{node.runtime_version!r} is not a runtime version in {place.zone}")
    if node.HasField("network_config") and len(node.network_configs):
        raise invalid("node.network_configs", "network_config and network_configs are mutually exclusive")
    check_mutable(node)
    for disk in node.data_disks:
        if not re.fullmatch(r"projects/[^/]+/zones/[^/]+/disks/[^/]+", disk.source_disk):
            raise invalid("node.data_disks.source_disk", f"{disk.source_disk!r} is not projects/*/zones/*/disks/*")
    return row


def check_mutable(node: Any) -> None:
    """Checks the fields that a patch may change too. Raises ApiError."""
    if len(node.description) > _MAX_DESCRIPTION:
        raise invalid("node.description", f"at most {_MAX_DESCRIPTION} characters")
    if len(node.labels) > _MAX_LABELS:
        raise invalid("node.labels", f"at most {_MAX_LABELS}")
    for key, value in node.labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(value):
            raise invalid("node.labels", f"{key}={value} is not a label: lower case letters, digits, '_' and '-'")
    for tag in node.tags:
        if not _TAG.fullmatch(tag):
            raise invalid("node.tags", f"{tag!r} is not a network tag")
    sizes = [len(value.encode()) for value in node.metadata.values()]
    if max(sizes, default=0) > _MAX_METADATA_VALUE or sum(sizes) > _MAX_METADATA:
        raise invalid("node.metadata", f"a value has at most {_MAX_METADATA_VALUE} bytes, all {_MAX_METADATA}")


def check_request(place: Place, request_id: str, message: Any, extras: Extras) -> Wanted:
    """A queued resource as it was sent, `request_id` its own id. Raises ApiError."""
    if not message.HasField("tpu") or not len(message.tpu.node_spec):
        raise invalid("queued_resource.tpu.node_spec", "it is required")
    if len(message.tpu.node_spec) > 1:
        raise invalid("queued_resource.tpu.node_spec", "several specs are not supported (our choice); use multislice")
    (spec,) = message.tpu.node_spec
    if spec.parent not in (place.name, place.numbered_name):
        raise invalid("node_spec.parent", f"{spec.parent!r} is not the parent of the request, {place.name!r}")
    row = check_node(place, spec.node)
    node_names = tuple(f"{place.name}/nodes/{name}" for name in _node_ids(request_id, spec))
    if message.reservation_name and not re.fullmatch(
        rf"(projects|folders|organizations)/[^/]+/locations/{re.escape(place.zone)}/reservations/[^/]+",
        message.reservation_name,
    ):
        raise invalid("reservation_name", f"{message.reservation_name!r} is not a reservation in {place.zone}")
    tier = _tier(message, extras)
    reservation = message.reservation_name if tier is Tier.RESERVED else ""
    return Wanted(row, tier, node_names, reservation, _run_s(tier, extras))


def _tier(message: Any, extras: Extras) -> Tier:
    """The tier asked for. STANDARD tells none: gcloud alpha sends it where it has no better word."""
    model = extras.request.get("provisioningModel", "STANDARD")
    if model not in _PROVISIONING_MODELS:
        raise invalid("provisioning_model", f"{model!r} is not one of {', '.join(_PROVISIONING_MODELS)}")
    scheduling = message.tpu.node_spec[0].node.scheduling_config
    reserved = extras.guaranteed.get("reserved") or model == "RESERVATION_BOUND"
    asked = {
        Tier.FLEX_START: model == "FLEX_START",
        Tier.SPOT: message.HasField("spot") or scheduling.spot or scheduling.preemptible or model == "SPOT",
        Tier.RESERVED: scheduling.reserved or bool(message.reservation_name) or reserved,
    }
    tiers = [tier for tier, is_asked in asked.items() if is_asked]
    if len(tiers) > 1:
        raise invalid("tier", f"{tiers[0]} capacity is not {tiers[1]}; ask for one of them (our choice)")
    return tiers[0] if tiers else Tier.GUARANTEED if message.HasField("guaranteed") else Tier.ON_DEMAND


def _run_s(tier: Tier, extras: Extras) -> float | None:
    """How long a request may be ACTIVE; flex-start has seven days at most, and where it says nothing (our choice)."""
    duration = extras.request.get("runDuration", {})
    unknown = set(duration) - {"maxRunDuration", "terminationTime"}
    if unknown:
        raise invalid("run_duration", f"unknown name {min(unknown)!r}")
    if "maxRunDuration" not in duration:
        return _LONGEST_RUN_S if tier is Tier.FLEX_START else None
    seconds = messages.seconds_of(messages.parse_duration(duration["maxRunDuration"]))
    if not 0 < seconds <= _LONGEST_RUN_S:
        raise invalid("run_duration.max_run_duration", f"{seconds:g} s is not above 0 and at most 7 days")
    return seconds


def without_outputs(node: Any) -> Any:
    """A node as a client may ask for it: what only the service sets is ignored."""
    copy = deepcopy(node)
    for name in _OUTPUT_ONLY:
        copy.ClearField(name)
    return copy


def check_mask(paths: list[str]) -> None:
    if not paths:
        raise invalid("update_mask", "it is required")
    for path in paths:
        if path not in MUTABLE:
            raise invalid("update_mask", f"{path!r} cannot be updated; supported: {', '.join(MUTABLE)}")


def invalid(field: str, why: str) -> ApiError:
    return ApiError(Code.INVALID_ARGUMENT, f"Invalid value for field '{field}': {why}.", "INVALID_FIELD", field=field)


def _node_ids(request_id: str, spec: Any) -> list[str]:
    if spec.HasField("multislice_params"):
        count = spec.multislice_params.node_count
        prefix = spec.multislice_params.node_id_prefix or request_id
        check_id("multislice_params.node_id_prefix", prefix)
        if count < 2:
            raise invalid("multislice_params.node_count", f"{count} is not more than 1; use node_id for one node")
        return [f"{prefix}-{index}" for index in range(count)]
    if not spec.node_id:
        raise invalid("node_spec", "node_id or multislice_params is required")
    check_id("node_spec.node_id", spec.node_id)
    return [spec.node_id]


def _row(place: Place, node: Any) -> Accelerator:
    configured = node.HasField("accelerator_config")
    if bool(node.accelerator_type) == configured:
        raise invalid("node.accelerator_type", "give it or accelerator_config, not both")
    config = node.accelerator_config
    asked = (messages.plain(config).get("type", ""), config.topology) if configured else node.accelerator_type
    named = (
        row
        for row in (*offered(), *hardware.emulated())
        if asked in (row.accelerator_type, (config_type(row), row.topology_text))
    )
    row = next(named, None)
    if row is None or place.zone not in row.zones:
        raise errors.not_in_zone(asked_accelerator(node), place.zone)
    return row


def asked_accelerator(node: Any) -> str:
    """The accelerator as refusals name it: with its topology where the request had one (our choice)."""
    config = messages.plain(node.accelerator_config)
    return node.accelerator_type or f"{config.get('type', '')} {config.get('topology', '')}"


def config_type(row: Accelerator) -> str:
    """The AcceleratorConfig.Type of a row; "" where the enum has no value for it."""
    prefix = str(row.accelerator_type).rpartition("-")[0]
    name = {"v5litepod": "V5LITE_POD"}.get(prefix, prefix.upper())
    return name if name in messages.enum_names("AcceleratorConfig", "Type") else ""
