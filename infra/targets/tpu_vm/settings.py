"""Keys that a stack of target `tpu-vm` has besides those of all cloud targets, and the rules between them.

Owns what a request to the Cloud TPU API may say, as far as stack file and tables tell. Not run on real hardware.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from infra import durations, emulated
from infra.hardware import Api
from infra.names import COMPUTE_LIMIT, COMPUTE_NAME
from infra.stack_file.cloud_training import CloudTrainingSettings, check_reservation_zone
from infra.stack_file.settings import Absent, SettingsError, stack_names
from infra.stack_file.terms import Seconds, seconds, where
from infra.targets.places import Places
from infra.targets.tpu_vm.provider.tpu_inputs import ANY_RESERVATION
from infra.tiers import Tier
from infra.vm_hosts.startup_script import DATA_DISK, DATA_MOUNT

RESERVATION = re.compile(r"(projects|folders|organizations)/[^/]+/locations/(?P<zone>[^/]+)/reservations/[^/]+")


def _moment(value: object) -> object:
    """A length of time, or a point in time as RFC 3339, which the engine's YAML may have parsed already."""
    parsed = re.fullmatch(r"(\d{4}-\S+ \S+) ([-+]\d{4}) \S+", value) if isinstance(value, str) else None
    if parsed:
        value = f"{parsed[1]}{parsed[2]}"
    if not isinstance(value, str) or not re.match(r"\d{4}-", value):
        return durations.text(cast(int, seconds(value))) if isinstance(value, str) else value
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a time without a zone; write it with one, like 2026-12-01T06:00:00Z")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


type Moment = Annotated[str, BeforeValidator(_moment)]


class DataDisk(BaseModel):
    """A persistent disk that exists already; several hosts can only read one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_disk: str = Field(pattern=r"^(projects/[^/]+/(zones|regions)/[a-z0-9-]+/disks/)?[a-z][-a-z0-9]{0,62}$")
    mode: Annotated[str, Field(pattern=r"^read-(write|only)$")] = "read-only"


class DataOnHosts(StrEnum):
    COPY = "copy"
    DISK = "disk"
    MOUNT = "mount"

    @property
    def directory(self) -> str:
        """Where hosts find it without a copy; empty where they copy it."""
        return {DataOnHosts.COPY: "", DataOnHosts.DISK: DATA_DISK, DataOnHosts.MOUNT: DATA_MOUNT}[self]


class TpuVmSettings(CloudTrainingSettings):
    """Times in seconds."""

    api: ClassVar[Api] = Api.QUEUED_RESOURCE
    offered_as: ClassVar[str] = "a TPU VM"
    hosts_have_python: ClassVar[bool] = False  # `python3 --version` on a v5litepod image is 3.10.12

    min_duration: Absent[Seconds] = None
    """How long tier guaranteed guarantees the chips, like 12h."""
    valid_until: Absent[Moment] = None
    """When a request that still waits ends itself - after a length of time (6h) or at a time (RFC 3339)."""
    valid_after: Absent[Moment] = None
    """When a request may be served at the earliest - after a length of time (6h) or at a time (RFC 3339)."""
    runtime_version: Absent[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]] = None
    """Another TPU VM image than the accelerator's in infra/hardware.yaml."""
    data_disks: tuple[DataDisk, ...] = ()
    """Persistent disks that exist already, each with source_disk and mode (read-only or read-write)."""
    data_on_hosts: DataOnHosts = DataOnHosts.COPY
    """`copy` (each host copies prepared text to its disk), `disk` (one of data_disks has it, below its content, in a
    file system labelled slipway-data) or `mount` (each host mounts its bucket and copies nothing)."""
    wait: bool = True
    """Whether `up` waits until every host reports that it has begun."""
    wait_deadline: Seconds = Field("24h", validate_default=True)
    """How long `up` waits; the request stays in the queue, and the next `up` goes on waiting."""
    take_over: Absent[Annotated[str, Field(pattern=r"^[0-9a-f]{6,12}(-[0-9a-f]{12}){0,2}$")]] = None
    """A running request of another clone that this one is to have, as the refusal of `up` names it; it is not deleted,
    and the other clone no longer has it."""

    @property
    def places(self) -> Places:
        """With the place from which its hosts copy text, since the target declares what brings it there."""
        return dataclasses.replace(
            super().places,
            data=f"gs://{self.names.data_bucket}/prepared",
            data_on_hosts=self.data_on_hosts.directory,
            data_is_mounted=self.hosts_mount_data,
        )

    @property
    def hosts_mount_data(self) -> bool:
        return self.data_on_hosts is DataOnHosts.MOUNT

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

    @model_validator(mode="before")
    @classmethod
    def _no_boot_disk(cls, values: Any) -> Any:
        """v2alpha1's `bootDiskConfig.diskSizeGb` needs all requests made (as flex-start is) and read in its JSON."""
        if isinstance(values, Mapping) and "boot_disk_gb" in values:
            raise ValueError(
                "boot_disk_gb cannot be asked for: the v2 TPU API has no boot disk, only v2alpha1; leave it out and "
                "attach `data_disks`"
            )
        return cast(Any, values)

    def check_place(self) -> None:
        super().check_place()
        for rule in (_emulated_rule, _tier_rule, _queue_rule, _disk_rule, _data_rule, _name_rule):
            rule(self)


def _emulated_rule(settings: TpuVmSettings) -> None:
    endpoint = os.environ.get(emulated.TPU, "")
    if settings.row.emulated and (not endpoint or emulated.is_googles(endpoint)):
        raise SettingsError(
            f"accelerator is '{settings.accelerator}' in {where(settings)}, which Google does not have; run `slipway "
            f"emulate tpu --boot` and export {emulated.TPU} as it says, or name one of `slipway hardware tpu`"
        )


def _tier_rule(settings: TpuVmSettings) -> None:
    tier = settings.tier
    if tier is Tier.RESERVED and not settings.reservation:
        raise SettingsError(
            f"tier is 'reserved' in {where(settings)}, but which? write `slipway:reservation: <name>`, or '-' for any"
        )
    if settings.min_duration and tier is not Tier.GUARANTEED:
        raise SettingsError(
            f"min_duration is given in {where(settings)}, but only tier 'guaranteed' has one; tier is '{tier}'"
        )
    _reservation_rule(settings)


def _reservation_rule(settings: TpuVmSettings) -> None:
    if not settings.reservation or "/" not in settings.reservation:
        named = settings.reservation not in (None, ANY_RESERVATION)
        if named and not COMPUTE_NAME.fullmatch(str(settings.reservation)):
            raise SettingsError(f"reservation '{settings.reservation}' is no reservation's name; it has a-z, 0-9, '-'")
        return
    path = RESERVATION.fullmatch(settings.reservation)
    if not path:
        raise SettingsError(
            f"reservation is '{settings.reservation}' in {where(settings)}; write its name, or "
            f"projects/<project>/locations/<zone>/reservations/<name> (or folders/<folder>/..., organizations/<id>/...)"
        )
    check_reservation_zone(settings, path["zone"])


def _queue_rule(settings: TpuVmSettings) -> None:
    if settings.tier is Tier.RESERVED and len(settings.zones) > 1:
        raise SettingsError(
            f"reservation '{settings.reservation}' is of one zone, but zones are {', '.join(settings.zones)} in "
            f"{where(settings)}; keep its own"
        )
    after, until = settings.valid_after, settings.valid_until
    if after and until and ("T" in after) == ("T" in until):
        reversed_times = after >= until if "T" in after else durations.seconds(after) >= durations.seconds(until)
        if reversed_times:
            raise SettingsError(
                f"valid_after is {after} and valid_until {until} in {where(settings)}: the request would expire "
                f"before it may be served; give a later valid_until"
            )


def _disk_rule(settings: TpuVmSettings) -> None:
    for disk in settings.data_disks:
        if disk.mode == "read-write" and settings.row.hosts * settings.slices > 1:
            raise SettingsError(
                f"data_disks has '{disk.source_disk}' as read-write in {where(settings)}, but "
                f"{settings.row.hosts * settings.slices} hosts would share it; write `mode: read-only`"
            )
        zone = re.search(r"zones/([^/]+)/", disk.source_disk)
        if zone and settings.zones != (zone[1],):
            raise SettingsError(
                f"data_disks has '{disk.source_disk}' of zone '{zone[1]}', but zones are {', '.join(settings.zones)} "
                f"in {where(settings)}; a disk is of one zone"
            )


def _data_rule(settings: TpuVmSettings) -> None:
    if settings.hosts_mount_data and not settings.sources:
        raise SettingsError(
            f"data_on_hosts is 'mount' in {where(settings)}, but data is '{settings.data}', which lies in no "
            f"bucket; leave data_on_hosts out"
        )
    if settings.data_on_hosts is DataOnHosts.DISK and not (settings.data_disks and settings.sources):
        lacking = "data_disks has none" if settings.sources else f"data is '{settings.data}'"
        raise SettingsError(
            f"data_on_hosts is 'disk' in {where(settings)}, but {lacking}; name the disk that has the text in "
            f"data_disks, or leave data_on_hosts out"
        )


def _name_rule(settings: TpuVmSettings) -> None:
    if "--" in settings.stack or settings.stack[-1] in "-.":
        raise SettingsError(f"stack '{settings.stack}' has '--' or ends in '-' or '.'; call it otherwise")
    longest = max(settings.nodes, key=len)
    if len(longest) > COMPUTE_LIMIT:
        raise SettingsError(
            f"the node '{longest}' would have {len(longest)} characters, the TPU API allows {COMPUTE_LIMIT}; "
            f"shorten the stack's name or `prefix` by {len(longest) - COMPUTE_LIMIT}"
        )
    # A multislice stack `v6e-8` of 4 slices makes node v6e-8-3; no other stack may be called so.
    clash = {name.replace(".", "--") for name in stack_names() if name != settings.stack} & {
        node.removeprefix(f"{settings.prefix}-") for node in settings.nodes
    }
    if clash:
        raise SettingsError(
            f"stack '{settings.stack}' would make nodes named as those of stack '{min(clash)}'; rename one of them"
        )
