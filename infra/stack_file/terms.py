"""On which terms a stack takes its chips, and for how much at most: keys of all that is paid for, in whichever cloud.

Owns what the hardware table and the file itself can tell. Refuses to own where it is (cloud_training.py has Google's),
prices and what follows of a limit (infra/preview/).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from infra import durations
from infra.hardware import Api
from infra.stack_file.settings import Absent, Owned, Settings, SettingsError, StackSettings, Workload
from infra.tiers import Tier


def _tier(value: object) -> object:
    return Tier.SPOT if value == "best-effort" else value  # the old name of spot


def seconds(value: object) -> object:
    return durations.seconds(value) if isinstance(value, str) else value


type Seconds = Annotated[int, BeforeValidator(seconds, json_schema_input_type=str), Field(ge=1, le=366 * 86_400)]
type Usd = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]


class Terms(Owned, Settings):
    """Times in seconds, money in US dollars.

    A target's class sets `api`, which its accelerators are asked of, and `offered_as`, what they are called there.
    """

    api: ClassVar[Api]
    offered_as: ClassVar[str]

    tier: Annotated[Tier, BeforeValidator(_tier)] = Tier.ON_DEMAND
    """`on-demand`, `spot`, `reserved`, `guaranteed` or `flex-start` (with `max_runtime`); `best-effort` is the old name
    of spot."""
    max_chips: Absent[Annotated[int, Field(ge=1)]] = None
    """More chips than this stop preview and up."""
    max_usd_per_hour: Absent[Usd] = None
    """A higher cost stops preview and up; an unknown one stops up."""
    max_usd_per_run: Absent[Usd] = None
    """As max_usd_per_hour, for the whole run."""
    max_runtime: Absent[Seconds] = None
    """Length of the run that its cost is computed from, like 24h. Only tier flex-start ends with it (at most 7d)."""
    price_usd_per_chip_hour: Absent[Usd] = None
    """Your own price, instead of the list price of infra/hardware.yaml."""

    @property
    @abstractmethod
    def billed_in(self) -> str:
        """Where it may leave something billed: a project, or what stands for one."""

    def check_place(self) -> None:
        row = self.row
        if self.api in row.apis:
            return
        if row.platform == "cpu":
            raise SettingsError(f"accelerator '{row.name}' is this machine's; write `target: local` in {where(self)}")
        raise SettingsError(
            f"accelerator '{row.name}' is not offered as {self.offered_as}, only by: {', '.join(row.apis)}; "
            f"choose one of `slipway hardware {self.api}` in {where(self)}"
        )


def where(workload: Workload | StackSettings) -> str:
    """The file, as sentences name it."""
    return f"stacks/Pulumi.{workload.stack}.yaml"
