"""The stack file of target `foundation`: typed, frozen settings of what outlives every training.

Owns: its keys and the rules between them. Refuses to own names (infra/names.py) and anything about a training.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from infra import names
from infra.rules import google_checks
from infra.stack_file.cloud_settings import CloudSettings, Region
from infra.stack_file.settings import Absent, without
from infra.targets.registry import Target

_SERVICES = (
    *("artifactregistry", "cloudkms", "cloudresourcemanager", "compute", "iam", "iap", "logging", "monitoring"),
    *("secretmanager", "serviceusage", "storage", "tpu"),
)
_BUDGET_SERVICE = "billingbudgets"


class Egress(StrEnum):
    """How hosts reach the internet. Google's own services are always reached, privately."""

    NONE = "none"
    NAT = "nat"


def _secrets_problem(secrets: tuple[str, ...]) -> str | None:
    for name in secrets:
        if not names.SECRET_NAME.fullmatch(name):
            return f"{name!r} cannot name a secret; give lower-case letters, digits and '-', no value"
    return "a secret is named twice; name each once" if len(set(secrets)) < len(secrets) else None


def _account_problem(account: str) -> str | None:
    if re.fullmatch(r"[0-9A-F]{6}(-[0-9A-F]{6}){2}", account):
        return None
    return "cannot be a billing account; give one as `gcloud billing accounts list` shows it"


def _soft_delete_problem(days: int) -> str | None:
    return None if days in (0, *range(7, 91)) else "give 7 to 90, or 0, which brings nothing back"


class FoundationSettings(CloudSettings):
    """One foundation."""

    target: Target = Target.FOUNDATION
    region: Region
    """Of a foundation, where it is."""
    egress: Egress = Egress.NONE
    """`none` or `nat` - whether a foundation's hosts reach the internet. Google's services they always reach."""
    subnet_cidr: Annotated[str, without(google_checks.subnet_problem)] = "10.0.0.0/20"
    """A foundation's private addresses; /20 is 4,092 hosts."""
    secrets: Annotated[tuple[str, ...], without(_secrets_problem)] = ("wandb", "huggingface")
    """A foundation's secrets, by name. Values are added by hand and never in a stack file."""
    budget_usd: int = Field(0, ge=0)
    """US dollars per month over all that the owner's label is on; alerts, and stops nothing. 0 is no budget."""
    budget_billing_account: Absent[Annotated[str, without(_account_problem)]] = None
    """The billing account of that budget, like 012345-6789AB-CDEF01."""
    soft_delete_days: Annotated[int, without(_soft_delete_problem)] = 7
    """How long what is deleted from a foundation's buckets can be brought back (and is billed), 7 to 90; 0 is off."""

    @property
    def place(self) -> str:
        return self.region

    @property
    def names(self) -> names.Names:
        return names.of(self.project, self.region, self.prefix)

    @property
    def services(self) -> tuple[str, ...]:
        """Google's APIs that the foundation and what stands on it need, without .googleapis.com."""
        return (*_SERVICES, _BUDGET_SERVICE) if self.budget_usd else _SERVICES

    @model_validator(mode="after")
    def _budget_is_whole(self) -> FoundationSettings:
        if bool(self.budget_usd) != bool(self.budget_billing_account):
            raise ValueError("budget_usd and budget_billing_account go together; give both, or leave both out")
        return self
