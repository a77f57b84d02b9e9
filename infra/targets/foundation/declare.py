"""Target `foundation`: what outlives every training in one region. Destroying a training cannot reach it.

Hands what plan.py has decided to the components and wires their outputs.
"""

from __future__ import annotations

import pulumi

from infra.targets.foundation.components import storage_agent
from infra.targets.foundation.components.budget import Budget
from infra.targets.foundation.components.identity import Access, AccessArgs, Identity
from infra.targets.foundation.components.network import Network
from infra.targets.foundation.components.registries import Registries
from infra.targets.foundation.components.secrets import Secrets
from infra.targets.foundation.components.services import Services
from infra.targets.foundation.components.storage import State, Storage
from infra.targets.foundation.plan import plan
from infra.targets.foundation.settings import FoundationSettings


def declare(settings: FoundationSettings) -> None:
    """Declare the stack's resources."""
    made = plan(settings)
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
    named = settings.names
    for kind, bucket in named.buckets.items():
        pulumi.export(f"{kind}_bucket", f"gs://{bucket}")
    pulumi.export("state", named.state_url)
    pulumi.export("network", named.network_path)
    pulumi.export("hosts_account", named.account_email)
    pulumi.export("images", named.images_url)
    pulumi.export("image_mirror", named.mirror_url)
