"""What `slipway doctor` asks of every training in the cloud: quota, the foundation that it stands on, its buckets."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from infra import names
from infra.artifacts.opening import open_store
from infra.artifacts.store import NoBucketError, StoreError
from infra.bucket_places import data_bucket_problem
from infra.google_cloud.google_project import GoogleProject
from infra.preview import quota
from infra.preview.quota import QuotaNeed
from infra.stack_file.cloud_training import CloudTrainingSettings, how_to_make_foundation
from infra.targets.needs import Finding, Needs, Question, not_asked, ok, wrong

BUCKET_PATIENCE_S = 10.0


def training_needs(settings: CloudTrainingSettings, services: tuple[str, ...], permissions: Mapping[str, str]) -> Needs:
    """services, permissions: what the target's own API asks for."""
    more: dict[str, Question] = {
        "quota": lambda project: quota_finding(project, quota.of(settings)),
        "foundation": lambda _: _foundation(settings),
    }
    more |= {key: partial(_bucket, settings, key, bucket) for key, bucket in settings.buckets_named.items()}
    return Needs(services, permissions, more=more)


def quota_finding(project: GoogleProject, need: QuotaNeed | None) -> Finding:
    """Compare the project's quota with the need, zone by zone: one with enough will do, as they are tried in turn.

    Google tells the limit and not how much of it is in use.
    """
    if need is None:
        return not_asked("quota", "nothing of it is counted against a quota")
    if need.name is None:
        return not_asked("quota", f"no source says which quota holds these {need.amount:,} {need.unit}")
    key, _, value = (need.dimension or "").partition("=")
    has = {place: project.quota(need.service, need.name, place, {key: value} if key else None) for place in need.places}
    told = {place: amount for place, amount in has.items() if amount is not None}
    if not told:
        return not_asked("quota", f"{need.title} has no value for {' or '.join(need.places)}")
    said = ", ".join(f"{'unlimited' if amount < 0 else f'{amount:,}'} in {place}" for place, amount in told.items())
    if any(amount < 0 or amount >= need.amount for amount in told.values()):
        return ok("quota", f"{need.title}: {said}, needs {need.amount:,} {need.unit}; what is in use is not told")
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={project.project}"
    return wrong("quota", f"{need.title}: {said}, but {need.amount:,} {need.unit} are needed; ask for more at {page}")


def _foundation(settings: CloudTrainingSettings) -> Finding:
    store = settings.places.artifacts
    try:
        open_store(store, BUCKET_PATIENCE_S).has("wheelhouses/any")
    except NoBucketError:
        return wrong("foundation", f"there is no {store}; {how_to_make_foundation(settings)}")
    except StoreError as error:
        return not_asked("foundation", str(error))
    return ok("foundation", f"{store} is there")


def _bucket(settings: CloudTrainingSettings, key: str, bucket: str, project: GoogleProject) -> Finding:
    location = project.bucket_location(bucket)
    if key == "data":
        problem = data_bucket_problem(bucket, [location.lower()], settings.place)
    else:
        problem = names.bucket_problem(key, bucket, location, settings.place)
    return wrong(key, problem) if problem else ok(key, f"gs://{bucket} is in {location.lower()}")
