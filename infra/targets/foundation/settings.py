"""The stack file of target `foundation`: typed, frozen settings of what outlives every training.

Owns: its keys and the rules between them. Refuses to own names (infra/names.py) and anything about a training.
"""

from __future__ import annotations

import re
from enum import StrEnum

from pydantic import Field, field_validator, model_validator

from infra import names
from infra.rules import google_checks
from infra.stack_file.cloud_settings import CloudSettings, Region
from infra.stack_file.settings import Absent
from infra.targets.registry import Target

_SERVICES = (
    "artifactregistry",
    "cloudkms",
    "cloudresourcemanager",
    "compute",
    "iam",
    "iap",
    "logging",
    "monitoring",
    "secretmanager",
    "serviceusage",
    "storage",
    "tpu",
)
_BUDGET_SERVICE = "billingbudgets"


class Egress(StrEnum):
    """How hosts reach the internet. Google's own services are always reached, privately."""

    NONE = "none"
    NAT = "nat"


class FoundationSettings(CloudSettings):
    """One foundation. Money is in US dollars.

    `soft_delete_days` is how long a deleted object can be brought back: 0 is not at all.
    """

    target: Target = Target.FOUNDATION
    region: Region
    egress: Egress = Egress.NONE
    subnet_cidr: str = "10.0.0.0/20"
    secrets: tuple[str, ...] = ("wandb", "huggingface")
    budget_usd: int = Field(0, ge=0)
    budget_billing_account: Absent[str] = None
    soft_delete_days: int = 7

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

    @property
    def labels(self) -> dict[str, str]:
        return names.labels(self.owner, self.stack)

    @field_validator("secrets")
    @classmethod
    def _can_be_secrets(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not names.SECRET_NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot name a secret; give lower-case letters, digits and '-', no value")
        if len(set(value)) < len(value):
            raise ValueError("a secret is named twice; name each once")
        return value

    @field_validator("subnet_cidr")
    @classmethod
    def _can_hold_hosts(cls, value: str) -> str:
        if problem := google_checks.subnet_problem(value):
            raise ValueError(problem)
        return value

    @field_validator("soft_delete_days")
    @classmethod
    def _can_be_soft_delete(cls, value: int) -> int:
        if value and value not in range(7, 91):
            raise ValueError("give 7 to 90, or 0, which brings nothing back")
        return value

    @field_validator("budget_billing_account")
    @classmethod
    def _can_be_an_account(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[0-9A-F]{6}(-[0-9A-F]{6}){2}", value):
            raise ValueError("cannot be a billing account; give one as `gcloud billing accounts list` shows it")
        return value

    @model_validator(mode="after")
    def _budget_is_whole(self) -> FoundationSettings:
        if bool(self.budget_usd) != bool(self.budget_billing_account):
            raise ValueError("budget_usd and budget_billing_account go together; give both, or leave both out")
        return self
