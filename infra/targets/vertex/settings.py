"""Keys of a stack of target `vertex`: what a custom job of Vertex AI may be, as far as stack file and tables tell.

Replicas, ranks and mesh follow from the accelerator, so no key says them. Refuses to own what the service is told
(provider/vertex_inputs.py). Not run on real hardware.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, cast

from pydantic import BeforeValidator, Field, model_validator

from infra import durations, emulated
from infra.hardware import Api
from infra.pods.gpu_terms import GpuTerms, Image
from infra.stack_file.cloud_settings import Region
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.settings import Absent, SettingsError, without
from infra.stack_file.terms import Seconds, seconds, where
from infra.targets.places import Places
from infra.tiers import Tier

RESERVATION = re.compile(r"projects/[^/]+/zones/(?P<zone>[^/]+)/reservations/[^/]+")
_TENSORBOARD = re.compile(r"projects/[^/]+/locations/(?P<region>[^/]+)/tensorboards/[^/]+")
_NETWORK = re.compile(r"projects/[0-9]+/global/networks/[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
LONGEST_RUN_S = 7 * 86_400  # the service's own default


def _wait(value: object) -> object:
    """A length of time, of which 0 is one here."""
    return 0 if value in ("0", "0s") else seconds(value)


def _tensorboard_problem(name: str) -> str | None:
    if _TENSORBOARD.fullmatch(name):
        return None
    return "no TensorBoard of Vertex AI; give its full name, projects/<project>/locations/<region>/tensorboards/<id>"


def _network_problem(name: str) -> str | None:
    if _NETWORK.fullmatch(name):
        return None
    return "no network that a job can be peered with; write projects/<project's number>/global/networks/<name>"


class VertexSettings(CloudTrainingSettings, GpuTerms):
    """A custom job of Vertex AI. Times in seconds."""

    api: ClassVar[Api] = Api.VERTEX
    offered_as: ClassVar[str] = "machines of a custom job of Vertex AI"

    regions: tuple[Region, ...] = ()
    """Regions in the order to try them, instead of `region`; the first has the run's buckets."""
    image: Image = "python:3.12"
    """The image of a custom job's containers - any that has Python 3.12, bash and curl, best by digest; one of Docker
    Hub comes by the foundation's mirror."""
    timeout: Absent[Seconds] = None
    """How long a custom job may run, like 3d; if empty, the service's 7 days, or the max_runtime of tier flex-start."""
    max_wait_duration: Absent[
        Annotated[int, BeforeValidator(_wait, json_schema_input_type=str), Field(ge=0, le=366 * 86_400)]
    ] = None
    """How long the service may look for machines of tier flex-start, like 12h; if empty, its 24 hours, and 0s is
    without end."""
    boot_disk_gb: Annotated[int, Field(ge=10, le=65_536)] = 100
    """The disk of each machine of a custom job, on which it keeps wheels, environment and text."""
    tensorboard: Absent[Annotated[str, without(_tensorboard_problem)]] = None
    """A TensorBoard of Vertex AI that a custom job sends its logs to, by its full name."""
    peered_network: Absent[Annotated[str, without(_network_problem)]] = None
    """A network that the machines of a custom job are peered with, by its project's number; if empty, they reach
    Google's services and the internet alone."""
    web_access: bool = False
    """Whether people may open a shell in the containers of a custom job."""
    wait: bool = True
    """Whether `up` waits until a custom job runs."""
    wait_deadline: Seconds = Field("24h", validate_default=True)
    """How long `up` waits; a custom job stays in the queue, and the next `up` goes on waiting."""

    @model_validator(mode="before")
    @classmethod
    def _regions_alone(cls, values: Any) -> Any:
        """The first region is where buckets are, and a job has no say in its zone."""
        if not isinstance(values, Mapping):
            return values
        given = cast(Mapping[str, Any], values)
        if "zones" in given:
            raise ValueError("zones cannot be asked for: Vertex AI looks in all of a region; write `regions`")
        regions: Any = given.get("regions")
        if not regions or not isinstance(regions, list | tuple):
            return cast(Any, values)
        if given.get("region"):
            raise ValueError("region and regions are both given; keep regions, whose first has the run's buckets")
        first: Any = cast(Any, regions)[0]
        return {**given, "region": first}

    @property
    def regions_in_order(self) -> tuple[str, ...]:
        return self.regions or (self.place,)

    @property
    def replicas(self) -> int:
        """Machines of the job: one for each host."""
        return self.row.hosts * self.slices

    @property
    def places(self) -> Places:
        """With the place from which replicas copy text, since the target declares what brings it there."""
        return dataclasses.replace(super().places, data=f"gs://{self.names.data_bucket}/prepared")

    @property
    def job(self) -> str:
        """Its display name, which other jobs may have too."""
        return f"{self.prefix}-{self.stack}"

    @property
    def timeout_s(self) -> int:
        """0 is the service's own."""
        return self.timeout or (self.max_runtime or 0 if self.tier is Tier.FLEX_START else 0)

    @property
    def account(self) -> str:
        """Who its containers are to Google."""
        return self.service_account or self.names.account_email

    def check_place(self) -> None:
        if self.api in self.row.apis:
            for rule in (_kind_rule, _region_rule):
                rule(self)
        super().check_place()
        for rule in (_emulated_rule, _tier_rule, _reservation_rule, _time_rule, _place_rule, _network_rule):
            rule(self)
        self.check_gpu_network()
        self.check_gpu_network_known()


def _kind_rule(settings: VertexSettings) -> None:
    row = settings.row
    if row.platform == "tpu":
        raise SettingsError(
            f"accelerator '{row.name}' is TPUs in {where(settings)}, and target vertex makes jobs of GPUs alone; write "
            f"`target: tpu-vm` or `target: gke-tpu`"
        )


def regions_of(settings: VertexSettings) -> tuple[str, ...]:
    """Where the accelerator's machine is; no source says in which of these Vertex AI gives it."""
    return tuple(dict.fromkeys(zone.rpartition("-")[0] for zone in settings.row.zones))


def _region_rule(settings: VertexSettings) -> None:
    there = ", ".join(regions_of(settings))
    asked = settings.regions or ((settings.region,) if settings.region else ())
    if not asked:
        raise SettingsError(f"regions is empty in {where(settings)}; {settings.row.name} is in: {there}")
    for region in asked:
        if region not in regions_of(settings):
            raise SettingsError(
                f"regions has '{region}' in {where(settings)}, which has no {settings.row.name}; it is in: {there}"
            )
    if len(set(asked)) < len(asked):
        raise SettingsError(f"regions names a region twice in {where(settings)}; name each once, in the order to try")


def _emulated_rule(settings: VertexSettings) -> None:
    endpoint = os.environ.get(emulated.VERTEX, "")
    if settings.row.emulated and (not endpoint or emulated.is_googles(endpoint)):
        raise SettingsError(
            f"accelerator is '{settings.accelerator}' in {where(settings)}, which Google does not have; run `slipway "
            f"emulate vertex --run` and export {emulated.VERTEX} as it says, or name one of `slipway hardware vertex`"
        )


def _tier_rule(settings: VertexSettings) -> None:
    tier = settings.tier
    if tier is Tier.GUARANTEED:
        raise SettingsError(
            f"tier is 'guaranteed' in {where(settings)}, which Vertex AI does not have; write `tier: reserved`"
        )
    if tier is Tier.RESERVED and not settings.reservation:
        raise SettingsError(
            f"tier is 'reserved' in {where(settings)}, but which? write `slipway:reservation: "
            f"projects/<project>/zones/<zone>/reservations/<name>`"
        )
    for region in settings.regions_in_order[1:] if tier is Tier.SPOT else ():
        price = settings.row.price(region)
        if price is not None and price.spot_usd is None and settings.price_usd_per_chip_hour is None:
            raise SettingsError(
                f"tier is 'spot' in {where(settings)}, but no spot {settings.row.name} is listed in {region}; leave "
                f"that region out, or, if you know better, give its price_usd_per_chip_hour"
            )


def _reservation_rule(settings: VertexSettings) -> None:
    if not settings.reservation:
        return
    path = RESERVATION.fullmatch(settings.reservation)
    if not path:
        raise SettingsError(
            f"reservation is '{settings.reservation}' in {where(settings)}, and Vertex AI takes its full name: write "
            f"projects/<project>/zones/<zone>/reservations/<name>"
        )
    zone, row = path["zone"], settings.row
    if zone not in row.zones:
        raise SettingsError(
            f"reservation is in zone '{zone}' in {where(settings)}, which has no {row.name}; a reservation for it is "
            f"in one of: {', '.join(row.zones)}"
        )
    region = zone.rpartition("-")[0]
    if settings.regions_in_order != (region,):
        raise SettingsError(
            f"reservation is in zone '{zone}', but the job is asked for in "
            f"{', '.join(settings.regions_in_order)} in {where(settings)}; write `regions: [{region}]`: a "
            f"reservation is of one zone"
        )


def _time_rule(settings: VertexSettings) -> None:
    flexible = settings.tier is Tier.FLEX_START
    if settings.max_wait_duration is not None and not flexible:
        raise SettingsError(
            f"max_wait_duration is given in {where(settings)}, but only tier 'flex-start' looks for machines that "
            f"long; tier is '{settings.tier}'"
        )
    if flexible and settings.timeout and settings.timeout != settings.max_runtime:
        raise SettingsError(
            f"timeout is {durations.text(settings.timeout)} and max_runtime "
            f"{durations.text(settings.max_runtime or 0)} in {where(settings)}; machines of flex-start are taken back "
            f"after max_runtime: leave timeout out"
        )


def _place_rule(settings: VertexSettings) -> None:
    found = _TENSORBOARD.fullmatch(settings.tensorboard or "")
    if found and settings.regions_in_order != (found["region"],):
        raise SettingsError(
            f"tensorboard is in {found['region']}, but the job is asked for in "
            f"{', '.join(settings.regions_in_order)} in {where(settings)}; a job and its TensorBoard are in one region"
        )


def _network_rule(settings: VertexSettings) -> None:
    for key in ("network", "subnet", "tags"):
        if getattr(settings, key):
            raise SettingsError(
                f"{key} is given in {where(settings)}, but a custom job runs in a network of Google's own; leave it "
                f"out, or write `peered_network` for one that its machines shall reach"
            )
