"""What a foundation will be: from settings to the arguments of components. Pure: asks nobody."""

from __future__ import annotations

from dataclasses import dataclass

from infra import names
from infra.targets.foundation.components.budget import BudgetArgs
from infra.targets.foundation.components.identity import IdentityArgs
from infra.targets.foundation.components.network import NetworkArgs
from infra.targets.foundation.components.registries import RegistriesArgs
from infra.targets.foundation.components.secrets import SecretsArgs
from infra.targets.foundation.components.services import ServicesArgs
from infra.targets.foundation.components.storage import StorageArgs
from infra.targets.foundation.settings import Egress, FoundationSettings


@dataclass(frozen=True)
class FoundationPlan:
    """Everything that `up` will make."""

    services: ServicesArgs
    storage: StorageArgs
    registries: RegistriesArgs
    network: NetworkArgs
    identity: IdentityArgs
    secrets: SecretsArgs
    budget: BudgetArgs | None


def plan(settings: FoundationSettings) -> FoundationPlan:
    """Pure: asks nobody."""
    named = settings.names
    budget = None
    if settings.budget_usd and settings.budget_billing_account:
        budget = BudgetArgs(
            billing_account=settings.budget_billing_account,
            display_name=named.budget,
            usd_per_month=settings.budget_usd,
            label=(names.OWNER_LABEL, names.label_value(settings.owner)),
            quota_project=settings.project,
        )
    return FoundationPlan(
        services=ServicesArgs(settings.project, settings.services),
        storage=StorageArgs(named, settings.soft_delete_days),
        registries=RegistriesArgs(named),
        network=NetworkArgs(named, settings.subnet_cidr, nat=settings.egress is Egress.NAT),
        identity=IdentityArgs(named),
        secrets=SecretsArgs(named, settings.secrets),
        budget=budget,
    )


def notices(settings: FoundationSettings) -> tuple[str, ...]:
    """What a reviewer should know before it is made."""
    named = settings.names
    where = f"foundation of {settings.project} in {settings.region}, as {settings.prefix}-*; owner {settings.owner}"
    egress = {
        Egress.NONE: "hosts reach Google and each other, and no internet",
        Egress.NAT: "hosts reach the internet through NAT, which is billed by the hour and byte",
    }[settings.egress]
    soft_delete = "" if settings.soft_delete_days else "; what is deleted from a bucket is gone at once"
    about = f"{where}; {egress}{soft_delete}"
    if not settings.secrets:
        return (about,)
    add = f"gcloud secrets versions add {named.secret_id('<name>')} --project {settings.project} --data-file=-"
    return (about, f"secrets ({', '.join(settings.secrets)}) are empty until: {add}")
