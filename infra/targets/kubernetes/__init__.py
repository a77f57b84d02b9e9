"""Target `kubernetes`: a JobSet in a cluster that exists already, whoever's it is. Not run on real hardware."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from infra.targets.contract import PaidContract

if TYPE_CHECKING:
    from infra.preview.stack_plan import TrainingPlan
    from infra.targets.billed import Billed
    from infra.targets.host_variables import HostVariable
    from infra.targets.hosts import Hosts
    from infra.targets.kubernetes.settings import KubernetesSettings
    from infra.targets.needs import Finding
    from training.run_spec import RunSpec


class Kubernetes(PaidContract["KubernetesSettings", "TrainingPlan[KubernetesSettings]"]):
    plugins = frozenset(("kubernetes",))

    def settings(self) -> type[KubernetesSettings]:
        from infra.targets.kubernetes.settings import KubernetesSettings

        return KubernetesSettings

    def declare(self, plan: TrainingPlan[KubernetesSettings]) -> None:
        from infra.targets.kubernetes.declare import declare

        declare(plan)

    def notices(self, settings: KubernetesSettings, spec: RunSpec | None) -> tuple[str, ...]:
        from infra.targets.kubernetes import plan

        return plan.notices(settings, spec, os.environ)

    def on_this_machine(self, settings: KubernetesSettings) -> Sequence[Finding]:
        from infra.targets.kubernetes import doctor

        return doctor.findings(settings)

    def variables(self, settings: KubernetesSettings) -> Sequence[HostVariable]:
        from infra.pods.pod_variables import variables

        return variables(settings)

    def hosts(self, stack: str) -> Hosts:
        from infra.pods.cluster import Cluster
        from infra.pods.pod_hosts import PodHosts
        from infra.stack_file.settings import from_file

        settings = from_file(stack)
        assert isinstance(settings, self.settings())
        return PodHosts(settings, Cluster(settings.context))

    def billed(self, place: str, say: Callable[[str], None]) -> Sequence[Billed]:
        from infra.pods import pod_jobs

        return pod_jobs.billed(place)

    def remove(self, names: Collection[str], say: Callable[[str], None]) -> Sequence[str]:
        from infra.pods import pod_jobs

        return pod_jobs.remove(names)


TARGET = Kubernetes()
