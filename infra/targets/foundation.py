"""Target `foundation`: what outlives every training in one region. Destroying a training cannot reach it.

`plan` is data: from settings to the arguments of components. `declare` hands them over and wires their outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra import guarded, names
from infra.components import storage_agent
from infra.components.budget import Budget, BudgetArgs
from infra.components.identity import Access, AccessArgs, Identity, IdentityArgs
from infra.components.network import Network, NetworkArgs
from infra.components.registries import Registries, RegistriesArgs
from infra.components.secrets import Secrets, SecretsArgs
from infra.components.services import Services, ServicesArgs
from infra.components.storage import State, Storage, StorageArgs
from infra.settings import SettingsError
from infra.targets.foundation_settings import Egress, FoundationSettings


@dataclass(frozen=True)
class FoundationPlan:
    """Everything that `up` will make, and what a reviewer should know before it does."""

    services: ServicesArgs
    storage: StorageArgs
    registries: RegistriesArgs
    network: NetworkArgs
    identity: IdentityArgs
    secrets: SecretsArgs
    budget: BudgetArgs | None
    notices: tuple[str, ...]


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
        notices=_notices(settings),
    )


def declare(settings: FoundationSettings) -> tuple[None, tuple[str, ...]]:
    """Plan the stack and declare its resources; it trains nothing."""
    made = plan(settings)
    placeholder = names.placeholder_problem(settings.project, settings.stack)
    if placeholder and not pulumi.runtime.is_dry_run():
        raise SettingsError(placeholder)
    guarded.install(settings.stack, settings.owner, settings.allow)
    services = Services("services", made.services)
    after = pulumi.ResourceOptions(depends_on=[services])
    storage = Storage("storage", made.storage, after)
    agent = storage_agent.member(settings.project, storage.buckets["artifacts"].project_number, services.enabled)
    State("state", made.storage, agent, after)
    registries = Registries("registries", made.registries, after)
    secrets = Secrets("secrets", made.secrets, after)
    identity = Identity("identity", made.identity, after)
    Network("network", made.network, identity.email, after)
    things = AccessArgs(settings.project, storage.buckets, registries.repositories, secrets.secrets)
    Access("access", things, identity.member, after)
    if made.budget:
        Budget("budget", made.budget, after)
    _export(settings.names)
    return None, made.notices


def _export(named: names.Names) -> None:
    for kind, bucket in named.buckets.items():
        pulumi.export(f"{kind}_bucket", f"gs://{bucket}")
    pulumi.export("state", named.state_url)
    pulumi.export("network", named.network_path)
    pulumi.export("hosts_account", named.account_email)
    pulumi.export("images", named.images_url)
    pulumi.export("image_mirror", named.mirror_url)


def _notices(settings: FoundationSettings) -> tuple[str, ...]:
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
