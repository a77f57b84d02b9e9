"""Settings as the inputs of what brings JobSet into a cluster; what follows from other resources comes later.

Refuses to own which cluster it is (the target's component).
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.paths import ROOT
from infra.pods import job_set_release
from infra.pods.pod_group import Manifest
from infra.pods.pod_terms import PodTerms
from infra.providers.inputs import JobSetInstallationInputs


def job_set_inputs(
    settings: PodTerms, manifests: Sequence[Manifest], cluster: str = ""
) -> JobSetInstallationInputs | None:
    """None where nothing may be installed. manifests: of the run. cluster: a context, where there is one.

    Raises ReleaseError for a file that is not the release; what is fetched, `up` judges.
    """
    if not settings.installs_job_set:
        return None
    source = job_set_release.URL
    if settings.jobset_manifests:
        source = str(ROOT / settings.jobset_manifests)
        job_set_release.manifests_of(source)
    used = [job_set_release.used_fields(each) for each in manifests if each["kind"] == "JobSet"]
    return JobSetInstallationInputs(
        cluster=cluster,
        version=job_set_release.VERSION,
        content=job_set_release.CONTENT,
        image=settings.jobset_image or job_set_release.IMAGE,
        source=source,
        fields=[field for fields in used for field in fields],
        identity="",
    )
