"""Keys of a stack of target `tpu-vm`: where, on which terms, for how much; and the rules between them.

Owns what a request to the Cloud TPU API may say, as far as stack file and tables tell. Refuses to own names
(infra/names.py), prices (infra/preview/cost.py) and whether the zone has capacity: nobody knows that before asking.
Not run on real hardware.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from infra import durations, hardware, names
from infra.hardware import Api
from infra.names import Names
from infra.stack_file.cloud_settings import Allowed, Owner, Prefix, Project
from infra.stack_file.settings import SYNTHETIC, Absent, Settings, SettingsError, stack_names

REQUEST_LIMIT = 63  # queuedResourceId and nodeId: letters, digits and '-', as Compute Engine names
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
RESERVATION = re.compile(r"(projects|folders|organizations)/[^/]+/locations/(?P<zone>[^/]+)/reservations/[^/]+")
ANY_RESERVATION = "-"  # of the zone that the project may use
FLEX_START_LIMIT_S = 7 * 86_400  # docs.cloud.google.com/tpu/docs/flex-start, read 2026-11-20
TAG = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


class Tier(StrEnum):
    """On which terms the zone gives its chips."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    GUARANTEED = "guaranteed"
    FLEX_START = "flex-start"  # v2alpha1's; the slice is taken back after max_runtime


class FitCheck(StrEnum):
    """Whether `up` asks for the TPU compiler's word that the train step fits."""

    CHECKED = "checked"
    UNCHECKED = "unchecked"


def _tier(value: object) -> object:
    return Tier.SPOT if value == "best-effort" else value  # the old name of spot


def _seconds(value: object) -> object:
    return durations.seconds(value) if isinstance(value, str) else value


def _moment(value: object) -> object:
    """A length of time, or a point in time as RFC 3339, which the engine's YAML may have parsed already."""
    parsed = re.fullmatch(r"(\d{4}-\S+ \S+) ([-+]\d{4}) \S+", value) if isinstance(value, str) else None
    if parsed:
        value = f"{parsed[1]}{parsed[2]}"
    if not isinstance(value, str) or not re.match(r"\d{4}-", value):
        return durations.text(cast(int, _seconds(value))) if isinstance(value, str) else value
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone; write it with one, like 2026-12-01T06:00:00Z")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


type Seconds = Annotated[int, BeforeValidator(_seconds), Field(ge=1, le=366 * 86_400)]
type Moment = Annotated[str, BeforeValidator(_moment)]
type Usd = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class DataDisk(BaseModel):
    """A persistent disk that exists already; several hosts can only read one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_disk: str = Field(pattern=r"^(projects/[^/]+/(zones|regions)/[a-z0-9-]+/disks/)?[a-z][-a-z0-9]{0,62}$")
    mode: Annotated[str, Field(pattern=r"^read-(write|only)$")] = "read-only"


def _labels(value: dict[str, str]) -> dict[str, str]:
    for key, text in value.items():
        if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(text):
            raise ValueError(
                f"label '{key}: {text}' is not one of Google's: at most 63 of a-z, 0-9, '_' and '-' each, the key from "
                f"a letter"
            )
        if key in (names.OWNER_LABEL, names.STACK_LABEL):
            raise ValueError(f"label {key!r} is set by Slipway; leave it out")
    return value


def _tags(value: tuple[str, ...]) -> tuple[str, ...]:
    for tag in value:
        if not TAG.fullmatch(tag):
            raise ValueError(f"{tag!r} is not a network tag: at most 63 of a-z, 0-9 and '-', from a letter")
    return value


class TpuVmSettings(Settings):
    """Times in seconds, money in US dollars. `zones` are tried in their order and lie in one region."""

    project: Project
    owner: Owner
    prefix: Prefix = "slipway"
    region: Absent[str] = None
    zones: tuple[str, ...] = ()
    tier: Annotated[Tier, BeforeValidator(_tier)] = Tier.ON_DEMAND
    reservation: Absent[str] = None
    min_duration: Absent[Seconds] = None
    valid_until: Absent[Moment] = None
    valid_after: Absent[Moment] = None
    runtime_version: Absent[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]] = None
    network: Absent[str] = None
    subnet: Absent[str] = None
    service_account: Absent[str] = None
    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)
    tags: Annotated[tuple[str, ...], AfterValidator(_tags)] = ()
    data_disks: tuple[DataDisk, ...] = ()
    host_secrets: tuple[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")], ...] = ()
    max_chips: Absent[Annotated[int, Field(ge=1)]] = None
    max_usd_per_hour: Absent[Usd] = None
    max_usd_per_run: Absent[Usd] = None
    max_runtime: Absent[Seconds] = None
    price_usd_per_chip_hour: Absent[Usd] = None
    fit: FitCheck = FitCheck.CHECKED
    fit_timeout_s: Annotated[int, Field(ge=1, le=86_400)] = 300
    wait: bool = True
    wait_deadline: Seconds = 86_400
    allow: Allowed = ()

    @property
    def place(self) -> str:
        """The region that all zones are in."""
        return self.zones[0].rpartition("-")[0]

    @property
    def names(self) -> Names:
        return names.of(self.project, self.place, self.prefix)

    @property
    def request(self) -> str:
        """The queued resource's id, and the start of its nodes'. No two stacks have the same: '.' becomes '--'."""
        return f"{self.prefix}-{self.stack.replace('.', '--')}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """One node is one slice."""
        if self.slices == 1:
            return (self.request,)
        return tuple(f"{self.request}-{number}" for number in range(self.slices))

    @property
    def buckets_named(self) -> dict[str, str]:
        """Buckets that keys of the stack name, by key: data, or a checkpoint to start from."""
        given = {"data": self.data} | {f"training.{key}": value for key, value in self.training.items()}
        return {
            key: value.removeprefix("gs://").partition("/")[0]
            for key, value in given.items()
            if isinstance(value, str) and value.startswith("gs://")
        }

    @property
    def all_labels(self) -> dict[str, str]:
        return self.labels | names.labels(self.owner, self.stack)

    @model_validator(mode="before")
    @classmethod
    def _no_boot_disk(cls, values: Any) -> Any:
        if isinstance(values, Mapping) and "boot_disk_gb" in values:
            raise ValueError(
                "boot_disk_gb cannot be asked for: the v2 TPU API has no boot disk, only v2alpha1; leave it out and "
                "attach `data_disks`"
            )
        return cast(Any, values)

    @field_validator("runtime_version", "network", "subnet", "service_account", "reservation")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[\x21-\x7e]{1,512}", value):
            raise ValueError("spaces or characters beyond ASCII in it; give the name or path as `gcloud` prints it")
        return value

    @field_validator("service_account")
    @classmethod
    def _no_default_account(cls, value: str | None) -> str | None:
        if value and (value == "default" or value.endswith("-compute@developer.gserviceaccount.com")):
            raise ValueError(
                "the project's default account, which may do almost anything in it; give one of its own, or leave the "
                "key out for the foundation's"
            )
        return value

    @model_validator(mode="after")
    def _zones_of_region(self) -> TpuVmSettings:
        if self.zones or not self.region:
            return self
        try:
            row = self.row
        except hardware.UnknownAcceleratorError:
            return self  # said with the nearest names by infra/stack_file/settings.py
        there = [zone for zone in row.zones_documented + row.zones if zone.rpartition("-")[0] == self.region]
        return self.model_copy(update={"zones": tuple(dict.fromkeys(there))})

    def check_place(self) -> None:
        of_place = (_api_rule, _zone_rule, _tier_rule, _queue_rule, _network_rule, _disk_rule)
        for rule in (*of_place, _name_rule, _bucket_rule, _data_rule):
            rule(self)


def _where(settings: TpuVmSettings) -> str:
    return f"stacks/Pulumi.{settings.stack}.yaml"


def _api_rule(settings: TpuVmSettings) -> None:
    row = settings.row
    if Api.QUEUED_RESOURCE in row.apis:
        return
    if row.platform == "cpu":
        raise SettingsError(f"accelerator '{row.name}' is this machine's; write `target: local` in {_where(settings)}")
    raise SettingsError(
        f"accelerator '{row.name}' is not offered as a TPU VM, only by: {', '.join(row.apis)}; "
        f"choose a v5e, v5p or v6e size (`slipway hardware queued_resource`) in {_where(settings)}"
    )


def _zone_rule(settings: TpuVmSettings) -> None:
    row, zones, where = settings.row, settings.zones, _where(settings)
    known = ", ".join(row.zones_documented) or ", ".join(row.zones)
    if not zones:
        said = f"region '{settings.region}' has no zone with {row.name}" if settings.region else "zones is empty"
        raise SettingsError(f"{said} in {where}; {row.name} is in: {known}")
    for zone in zones:
        if not re.fullmatch(r"[a-z]+(-[a-z]+)+\d+-[a-z0-9]+", zone):
            raise SettingsError(f"zones has '{zone}' in {where}, which is no zone; {row.name} is in: {known}")
    regions = dict.fromkeys(zone.rpartition("-")[0] for zone in zones)
    if len(regions) > 1:
        raise SettingsError(
            f"zones lie in {len(regions)} regions ({', '.join(regions)}) in {where}; checkpoints and data are in one: "
            f"keep the zones of one, and make a second stack for the other"
        )
    if settings.region and settings.region not in regions:
        raise SettingsError(
            f"region is '{settings.region}' but zones are in '{settings.place}' in {where}; leave region out"
        )
    if len(set(zones)) < len(zones):
        raise SettingsError(f"zones names a zone twice in {where}; name each once, in the order to try them")
    for zone in zones:
        if zone not in row.zones:
            raise SettingsError(f"zones has '{zone}' in {where}, which has no {row.name}; it is in: {known}")


def _tier_rule(settings: TpuVmSettings) -> None:
    row, tier, where = settings.row, settings.tier, _where(settings)
    if tier is Tier.SPOT:
        quota, price = row.quota(Api.QUEUED_RESOURCE), row.price(settings.place)
        if quota and quota.spot is None:
            raise SettingsError(f"tier is 'spot' in {where}, but no spot {row.name} is known; write on-demand")
        if price and price.spot_usd is None and settings.price_usd_per_chip_hour is None:
            has = ", ".join(price.region for price in row.prices if price.spot_usd is not None)
            raise SettingsError(
                f"tier is 'spot' in {where}, but no spot {row.name} is listed in {settings.place}; choose a region of "
                f"{has}, or write on-demand, or, if you know better, its price_usd_per_chip_hour"
            )
    if tier is Tier.RESERVED and not settings.reservation:
        raise SettingsError(
            f"tier is 'reserved' in {where}, but which? write `slipway:reservation: <name>`, or '-' for any"
        )
    if tier is Tier.FLEX_START and not 0 < (settings.max_runtime or 0) <= FLEX_START_LIMIT_S:
        raise SettingsError(
            f"tier is 'flex-start' in {where}, which gives a slice for at most 7 days; write how long it is wanted, "
            f"like `slipway:max_runtime: 24h`"
        )
    if settings.reservation and tier not in (Tier.RESERVED, Tier.GUARANTEED):
        raise SettingsError(
            f"reservation is '{settings.reservation}' in {where}, but tier '{tier}' takes none; write `tier: reserved`"
        )
    if settings.min_duration and tier is not Tier.GUARANTEED:
        raise SettingsError(f"min_duration is given in {where}, but only tier 'guaranteed' has one; tier is '{tier}'")
    _reservation_rule(settings)


def _reservation_rule(settings: TpuVmSettings) -> None:
    if not settings.reservation or "/" not in settings.reservation:
        if settings.reservation not in (None, ANY_RESERVATION) and not TAG.fullmatch(str(settings.reservation)):
            raise SettingsError(f"reservation '{settings.reservation}' is no reservation's name; it has a-z, 0-9, '-'")
        return
    path = RESERVATION.fullmatch(settings.reservation)
    if not path:
        raise SettingsError(
            f"reservation is '{settings.reservation}' in {_where(settings)}; write its name, or "
            f"projects/<project>/locations/<zone>/reservations/<name> (or folders/<folder>/..., organizations/<id>/...)"
        )
    if settings.zones != (path["zone"],):
        raise SettingsError(
            f"reservation is in zone '{path['zone']}', but zones are {', '.join(settings.zones)} in "
            f"{_where(settings)}; write `zones: [{path['zone']}]`: a reservation is of one zone"
        )


def _queue_rule(settings: TpuVmSettings) -> None:
    if settings.tier is Tier.RESERVED and len(settings.zones) > 1:
        raise SettingsError(
            f"reservation '{settings.reservation}' is of one zone, but zones are {', '.join(settings.zones)} in "
            f"{_where(settings)}; keep its own"
        )
    after, until = settings.valid_after, settings.valid_until
    if after and until and ("T" in after) == ("T" in until):
        reversed_times = after >= until if "T" in after else durations.seconds(after) >= durations.seconds(until)
        if reversed_times:
            raise SettingsError(
                f"valid_after is {after} and valid_until {until} in {_where(settings)}: the request would expire "
                f"before it may be served; give a later valid_until"
            )


def _network_rule(settings: TpuVmSettings) -> None:
    if (settings.network is None) != (settings.subnet is None):
        raise SettingsError(
            f"network and subnet go together in {_where(settings)}; give both, or neither for the foundation's"
        )
    region = re.search(r"regions/([^/]+)/", settings.subnet or "")
    if region and region[1] != settings.place:
        raise SettingsError(
            f"subnet is in region '{region[1]}', but zones are in '{settings.place}' in {_where(settings)}"
        )


def _disk_rule(settings: TpuVmSettings) -> None:
    for disk in settings.data_disks:
        if disk.mode == "read-write" and settings.row.hosts * settings.slices > 1:
            raise SettingsError(
                f"data_disks has '{disk.source_disk}' as read-write in {_where(settings)}, but "
                f"{settings.row.hosts * settings.slices} hosts would share it; write `mode: read-only`"
            )
        zone = re.search(r"zones/([^/]+)/", disk.source_disk)
        if zone and settings.zones != (zone[1],):
            raise SettingsError(
                f"data_disks has '{disk.source_disk}' of zone '{zone[1]}', but zones are {', '.join(settings.zones)} "
                f"in {_where(settings)}; a disk is of one zone"
            )


def _name_rule(settings: TpuVmSettings) -> None:
    if "--" in settings.stack or settings.stack[-1] in "-.":
        raise SettingsError(f"stack '{settings.stack}' has '--' or ends in '-' or '.'; call it otherwise")
    longest = max(settings.nodes, key=len)
    if len(longest) > REQUEST_LIMIT:
        raise SettingsError(
            f"the node '{longest}' would have {len(longest)} characters, the TPU API allows {REQUEST_LIMIT}; "
            f"shorten the stack's name or `prefix` by {len(longest) - REQUEST_LIMIT}"
        )
    # A multislice stack `v6e-8` of 4 slices makes node v6e-8-3; no other stack may be called so.
    clash = {name.replace(".", "--") for name in stack_names() if name != settings.stack} & {
        node.removeprefix(f"{settings.prefix}-") for node in settings.nodes
    }
    if clash:
        raise SettingsError(
            f"stack '{settings.stack}' would make nodes named as those of stack '{min(clash)}'; rename one of them"
        )


def _bucket_rule(settings: TpuVmSettings) -> None:
    """What names alone tell of where a bucket is; `slipway doctor` asks where the others are."""
    if not settings.buckets_named:
        return
    regions = {zone.rpartition("-")[0] for row in hardware.rows("tpu") for zone in row.zones}
    for key, bucket in settings.buckets_named.items():
        problem = names.misplaced_bucket(
            key, bucket, settings.project, settings.place, settings.prefix, sorted(regions)
        )
        if problem:
            raise SettingsError(f"{problem} ({_where(settings)})")


def _data_rule(settings: TpuVmSettings) -> None:
    if settings.data != SYNTHETIC:
        raise SettingsError(
            f"data is '{settings.data}' in {_where(settings)}; TPU VM hosts cannot read prepared text from a bucket "
            f"yet: write `slipway:data: synthetic`"
        )
