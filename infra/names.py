"""What everything on Google Cloud is called: a pure function of project, region and prefix.

Owns: names within the API's limits with every suffix, the paths and URLs made of them, labels, and which bucket a
region's hosts may use. Refuses to own what exists: a size stack computes the same names as its foundation, so it needs
no reference to it and previews before there is one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

OWNER_LABEL = "slipway-owner"
STACK_LABEL = "slipway-stack"
STATE_LABEL = "slipway-state"  # which state of that stack has made it
MADE_LABEL = "slipway-made"  # of a request: which one it is, and on which terms
PLACEHOLDER_PROJECT = "my-project"  # what shipped stacks say; it previews, and `up` refuses it

# Lengths that the APIs allow (their reference pages, "name" or "id" of each).
BUCKET_LIMIT = 63
ACCOUNT_LIMIT = 30
LABEL_LIMIT = 63
COMPUTE_LIMIT = 63
CLUSTER_LIMIT = 40  # of GKE, and of its node pools

# What the APIs take, as whole texts; a stack file and a resource's inputs are held to the same.
LABEL_KEY = re.compile(rf"[a-z][a-z0-9_-]{{0,{LABEL_LIMIT - 1}}}")
LABEL_VALUE = re.compile(rf"[a-z0-9_-]{{0,{LABEL_LIMIT}}}")
COMPUTE_NAME = re.compile(rf"[a-z]([-a-z0-9]{{0,{COMPUTE_LIMIT - 2}}}[a-z0-9])?")  # nodes, reservations, network tags
BUCKET_NAME = re.compile(rf"[a-z0-9][a-z0-9._-]{{1,{BUCKET_LIMIT - 2}}}[a-z0-9]")
SECRET_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")  # as a stack names it, without the prefix
REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+[0-9]{1,2}")

_HASH = 8  # hexadecimal digits that stand for what was cut off
_ROOM = _HASH + 2  # the least that is left for a place once a prefix is written
PREFIX_LIMIT = ACCOUNT_LIMIT - len("-") - _ROOM

_WORD = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_PROJECT = re.compile(r"[a-z][-a-z0-9]{4,28}[a-z0-9]")
_SCOPED = re.compile(r"(?P<domain>([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}):[a-z]([-a-z0-9]{0,28}[a-z0-9])?")
_REGION_LIMIT = 25


class NamesError(ValueError):
    """No names can be made of it; the message says what to write instead."""


class Names:
    """Names of a project's foundation in one region, without the project where the API keeps them apart."""

    def __init__(self, project: str, region: str, prefix: str) -> None:
        place = f"{prefix}-{shortened(region, ACCOUNT_LIMIT - len(prefix) - 1)}"

        def bucket(kind: str) -> str:
            # bucket names are the world's, so the project is in them
            start = f"{prefix}-{kind}-"
            return start + shortened(f"{region}-{_slug(project)}", BUCKET_LIMIT - len(start))

        self.project = project
        self.region = region
        self.checkpoints_bucket = bucket("checkpoints")
        self.data_bucket = bucket("data")
        self.artifacts_bucket = bucket("artifacts")
        self.state_bucket = bucket("state")
        self.network = place
        self.subnet = place
        self.firewall_hosts = f"{place}-hosts"
        self.firewall_subnet = f"{place}-subnet"
        self.firewall_ssh = f"{place}-iap-ssh"
        self.firewall_network_ssh = f"{place}-iap-ssh-network"
        self.router = place
        self.nat = f"{place}-nat"
        self.account_id = place
        self.python_repository = f"{prefix}-python"
        self.mirror_repository = f"{prefix}-mirror"
        self.images_repository = f"{prefix}-images"
        self.key_ring = prefix
        self.state_key = "state"
        self.budget = place  # the API allows 60 characters
        self.secret_prefix = place

    @property
    def account_email(self) -> str:
        """Of the hosts' service account."""
        return account_email(self.project, self.account_id)

    @property
    def network_path(self) -> str:
        return f"projects/{self.project}/global/networks/{self.network}"

    @property
    def subnet_path(self) -> str:
        return f"projects/{self.project}/regions/{self.region}/subnetworks/{self.subnet}"

    @property
    def state_url(self) -> str:
        """What `pulumi login` takes."""
        return f"gs://{self.state_bucket}"

    @property
    def images_url(self) -> str:
        return self._docker(self.images_repository)

    @property
    def mirror_url(self) -> str:
        return self._docker(self.mirror_repository)

    def secret_id(self, name: str) -> str:
        return f"{self.secret_prefix}-{name}"

    def secret_path(self, name: str) -> str:
        """The version that hosts read."""
        return f"projects/{self.project}/secrets/{self.secret_id(name)}/versions/latest"

    def _docker(self, repository: str) -> str:
        # https://cloud.google.com/artifact-registry/docs/docker/names: the colon becomes a slash
        return f"{self.region}-docker.pkg.dev/{self.project.replace(':', '/')}/{repository}"

    @property
    def buckets(self) -> Mapping[str, str]:
        """Those that hosts use, by what they hold."""
        return {"checkpoints": self.checkpoints_bucket, "data": self.data_bucket, "artifacts": self.artifacts_bucket}


def of(project: str, region: str, prefix: str) -> Names:
    """The names. Raises NamesError for a project, region or prefix of which none can be made."""
    for problem in (project_problem(project), region_problem(region), prefix_problem(prefix)):
        if problem:
            raise NamesError(problem)
    return Names(project, region, prefix)


def account_email(project: str, account_id: str) -> str:
    """Of a service account; a domain-scoped project is written the other way round in it."""
    return f"{account_id}@{'.'.join(reversed(project.split(':')))}.iam.gserviceaccount.com"


# --- what cannot be ---


def project_problem(project: str) -> str | None:
    """One sentence where no project can have this id."""
    if _PROJECT.fullmatch(project):
        return None
    scoped = _SCOPED.fullmatch(project)
    if scoped and len(scoped["domain"]) <= 253:
        return None
    if project.isdecimal():
        why = "it is a project's number"
    elif project != project.lower():
        why = "it has upper-case letters"
    elif ":" in project:
        why = "only a domain may come before a ':'"
    elif not 6 <= len(project) <= 30:
        why = f"it has {len(project)} characters"
    else:
        why = "it begins, ends or goes on with a character that is not allowed there"
    return (
        f"project {project!r} cannot be a project id: {why}; give 6-30 lower-case letters, digits and '-', first a "
        f"letter and last no '-' (`example.com:` may come before it), as `gcloud projects list` shows it"
    )


def region_problem(region: str) -> str | None:
    """One sentence where no region can be called so."""
    if REGION.fullmatch(region) and len(region) <= _REGION_LIMIT:
        return None
    zone = re.fullmatch(r"(.+[0-9])-[a-z]", region)
    if zone and region_problem(zone[1]) is None:
        return f"region {region!r} is a zone; give its region, {zone[1]}"
    return f"region {region!r} cannot be a region; give one as `gcloud compute regions list` shows it, like us-central1"


def prefix_problem(prefix: str) -> str | None:
    """One sentence where names that begin with it would break an API's rule."""
    if len(prefix) > PREFIX_LIMIT:
        longest = f"{prefix}-<region>"
        return (
            f"prefix {prefix!r} has {len(prefix)} characters; give at most {PREFIX_LIMIT}, for {longest!r} has to fit "
            f"into the {ACCOUNT_LIMIT} characters of a service account's id"
        )
    if not re.fullmatch(_WORD, prefix):
        return (
            f"prefix {prefix!r} cannot begin names; give lower-case letters, digits and '-', "
            f"first a letter and last no '-'"
        )
    if prefix.startswith("goog") or "google" in prefix:
        return (
            f"prefix {prefix!r} cannot begin a bucket's name, which has no 'google' in it; give another, like 'slipway'"
        )
    return None


def placeholder_problem(project: str, stack: str) -> str | None:
    """One sentence where `up` would ask Google for the project that only documentation has."""
    if project != PLACEHOLDER_PROJECT:
        return None
    return (
        f"project is still {project!r}, which only previews; write your own in stacks/Pulumi.{stack}.yaml, as "
        f"`gcloud projects list` shows it"
    )


# --- labels ---


def owner_digest(owner: str) -> str:
    """6 hex digits that tell apart owners of one label, as a.b@x.com and a-b@x.com; the same in any case."""
    return hashlib.sha256(owner.strip().lower().encode()).hexdigest()[:6]


class OfOwner(Protocol):
    """What says whose it is, by the label of its owner and, unless 0.1.0 has made it, by the owner's digest."""

    @property
    def owner(self) -> str: ...

    @property
    def owner_digest(self) -> str: ...


def of_owner[T: OfOwner](things: Iterable[T], owner: str) -> list[T]:
    """Those of a stack's `owner`, or of a label. Raises ValueError where several owners have that label."""
    labelled = [thing for thing in things if thing.owner in (label_value(owner), owner)]
    digests = {thing.owner_digest for thing in labelled} - {""}
    if owner == label_value(owner) and owner_digest(owner) not in digests:
        if len(digests) > 1:
            raise ValueError(f"{len(digests)} owners have the label {owner!r}; give the owner as the stack file has it")
        return labelled
    return [thing for thing in labelled if thing.owner_digest in ("", owner_digest(owner))]


def labels(owner: str, stack: str) -> dict[str, str]:
    """The labels of everything billable."""
    return {OWNER_LABEL: label_value(owner), STACK_LABEL: stack_label(stack)}


def stack_label(stack: str) -> str:
    """No two stacks have one label: stack names hold '.' and no '_', label values the other way round."""
    return shortened(stack.replace(".", "_"), LABEL_LIMIT)


def label_value(text: str) -> str:
    """Any text as a label's value: an e-mail address, a project id, a commit."""
    return shortened(re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-"), LABEL_LIMIT)


# --- buckets and regions ---


def bucket_problem(key: str, bucket: str, location: str, region: str) -> str | None:
    """One sentence where a bucket's location (as the API tells it: `US-CENTRAL1`, `US`) is not the hosts' region."""
    if location.lower() == region:
        return None
    return (
        f"{key}: bucket {bucket!r} lies in {location.lower()}, but the hosts are in {region}: every checkpoint and "
        f"every batch would cross regions, slowly and at a price per byte; give a bucket in {region}, or leave the "
        f"key out for the foundation's own"
    )


def misplaced_bucket(
    key: str, bucket: str, project: str, region: str, prefix: str, regions: Iterable[str]
) -> str | None:
    """As bucket_problem, of what the name alone tells: a bucket of another region's foundation. Asks nobody.

    bucket: with or without `gs://` and a path. regions: where there may be foundations.
    """
    name = bucket.removeprefix("gs://").partition("/")[0]
    for other in regions:
        if other != region and name in of(project, other, prefix).buckets.values():
            return bucket_problem(key, name, other, region)
    return None


# --- how a name is made to fit ---


def shortened(text: str, limit: int) -> str:
    """The text, or as much of it as fits before a hash of the whole, so that no two texts become one."""
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH]
    return f"{text[: limit - _HASH - 1].rstrip('-_')}-{digest}"


def _slug(project: str) -> str:
    """The project as a part of names. A domain-scoped one gets a hash: `example.com:x` is not `example-com-x`."""
    digest = hashlib.sha256(project.encode()).hexdigest()[:_HASH]
    if "goog" in project:
        return f"p-{digest}"  # bucket names may not hold the word
    if ":" not in project:
        return project
    return f"{project.replace(':', '-').replace('.', '-')}-{digest}"
