"""What a reviewer should know of a stack of target `kubernetes` besides what is said of every stack. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from infra.pods import gpu_mesh
from infra.stack_file.settings import SettingsError
from infra.stack_file.terms import where
from infra.targets.kubernetes import s3_rules
from infra.targets.kubernetes.settings import KubernetesSettings
from infra.targets.places import in_bucket, in_s3
from training.run_spec import RunSpec


def notices(settings: KubernetesSettings, spec: RunSpec | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Where its pods will be, and how they get at buckets.

    environ: of this machine. Raises SettingsError for a mesh that crosses GPUs' hosts, and where it would push to
    another server than pods read.
    """
    if problem := s3_rules.other_server(settings.s3, environ):
        raise SettingsError(f"{problem} ({where(settings)})")
    if spec:
        gpu_mesh.check(settings, spec)
    asked = settings.group
    each = ", ".join(f"{count} {resource}" for resource, count in asked.resources.items())
    pods = f"{asked.hosts} pods of {settings.image}, {each} each"
    place = f"cluster {settings.context}, namespace {settings.namespace}: {pods}"
    places = settings.places
    text = settings.text_place if settings.sources else ""
    buckets = sorted({each for each in (places.artifacts_on_hosts, places.runs, text) if in_bucket(each)})
    of_google = [place for place in buckets if not in_s3(place)]
    of_s3 = [place for place in buckets if in_s3(place)]
    said = [place, *settings.network_notices]
    if of_google:
        said.append(f"pods reach {', '.join(of_google)} as their metadata server says, which Google's nodes have")
    if of_s3:
        server = settings.s3_endpoint or f"Amazon's in {settings.s3_region}"
        said.append(f"pods read {', '.join(of_s3)} ({server}) {settings.s3.account}")
    return tuple(said)
