"""What Google refuses to make in a project that is not ready for it, in Google's own sentences.

Owns: one row per refusal, with the public thread in which it was seen, and the service agent of Cloud Storage, which is
there only once somebody has asked for its name. Refuses to own what a preview refuses already (rules.py), when GKE
refuses (gke_refusals.py), and quotas, permissions and delays, of which the stand-in knows nothing.

To the stand-in only what it has made itself exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from infra.providers.resource import ResourceError
from infra.standins.gcp import gke, gke_refusals, provider_fields
from infra.standins.gcp.making import Making

STORAGE_AGENT = "gcp:storage/getProjectServiceAccount:getProjectServiceAccount"
_AGENT_EMAIL = "service-0@gs-project-accounts.iam.gserviceaccount.com"  # the stand-in's projects have the number 0
_AGENT_MEMBER = f"serviceAccount:{_AGENT_EMAIL}"

# Which API makes a type, and how it is called in the refusal. The first row that begins the type's token counts.
_APIS: tuple[tuple[str, str, str], ...] = (
    ("gcp:artifactregistry/", "artifactregistry", "Artifact Registry API"),
    ("gcp:compute/", "compute", "Compute Engine API"),
    ("gcp:container/", "container", "Kubernetes Engine API"),
    ("gcp:kms/", "cloudkms", "Cloud Key Management Service (KMS) API"),
    ("gcp:projects/iAM", "cloudresourcemanager", "Cloud Resource Manager API"),
    ("gcp:secretmanager/", "secretmanager", "Secret Manager API"),
    ("gcp:serviceaccount/", "iam", "Identity and Access Management (IAM) API"),
    ("gcp:storage/", "storage", "Cloud Storage API"),
    ("gcp:tpu/", "tpu", "Cloud TPU API"),
    ("gcp:billing/", "billingbudgets", "Cloud Billing Budget API"),
)


def _api_disabled(making: Making) -> str | None:
    api = next(((name, title) for start, name, title in _APIS if making.token.startswith(start)), None)
    project = making.project
    if api is None or not project:
        return None
    service = f"{api[0]}.googleapis.com"
    if making.exists("gcp:projects/service:Service", f"{project}/{service}"):
        return None
    return (
        f"Error 403: {api[1]} has not been used in project {project} before or it is disabled. Enable it by visiting "
        f"https://console.developers.google.com/apis/api/{service}/overview?project={project} then retry. If you "
        "enabled this API recently, wait a few minutes for the action to propagate to our systems and retry., "
        "accessNotConfigured"
    )


def _agent_not_obtained(making: Making) -> str | None:
    if making.text("member") != _AGENT_MEMBER or making.exists(STORAGE_AGENT, making.project):
        return None
    return (
        f'Error applying IAM policy for KMS CryptoKey "{making.text("cryptoKeyId")}": Error setting IAM policy: '
        f"googleapi: Error 400: Service account {_AGENT_EMAIL} does not exist., badRequest"
    )


def _key_not_granted(making: Making) -> str | None:
    key = making.object("encryption").get("defaultKmsKeyName")
    grant = f"{key}/roles/cloudkms.cryptoKeyEncrypterDecrypter/{_AGENT_MEMBER}"
    if key is None or making.exists("gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember", grant):
        return None
    return (
        "googleapi: Error 403: Permission denied on Cloud KMS key. Please ensure that your Cloud Storage service "
        "account has been authorized to use this key., forbidden"
    )


def _absent_account(making: Making) -> str | None:
    member = re.fullmatch(r"serviceAccount:([^@]+@([^@]+)\.iam\.gserviceaccount\.com)", making.text("member"))
    if member is None or member[2].startswith(("gcp-sa-", "gs-project-accounts")):
        return None
    name, _, domain = member[2].partition(".")
    project = f"{domain}:{name}" if domain else name  # an address has a domain-scoped project the other way round
    if making.exists("gcp:serviceaccount/account:Account", f"projects/{project}/serviceAccounts/{member[1]}"):
        return None
    return f"Error setting IAM policy: googleapi: Error 400: Service account {member[1]} does not exist., invalid"


def _absent_network(making: Making) -> str | None:
    network = making.text("network")
    path = re.search(r"projects/[^/]+/global/networks/[^/]+$", network)
    identifier = path[0] if path else f"projects/{making.project}/global/networks/{network}"
    if making.exists("gcp:compute/network:Network", identifier):
        return None
    return f"googleapi: Error 404: The resource '{identifier}' was not found, notFound"


def _no_quota_project(making: Making) -> str | None:
    """As for a person's credentials; a service account's would have a project of their own."""
    if making.settings["billingProject"] and making.settings["userProjectOverride"].lower() == "true":
        return None
    return (
        "googleapi: Error 403: Your application is authenticating by using local Application Default Credentials. The "
        "billingbudgets.googleapis.com API requires a quota project, which is not set by default. To learn how to set "
        "your quota project, see https://cloud.google.com/docs/authentication/adc-troubleshooting/user-creds ."
    )


@dataclass(frozen=True)
class Refusal:
    """tokens: patterns of types. seen: where Google's sentence was read."""

    tokens: tuple[str, ...]
    sentence: Callable[[Making], str | None]
    seen: str


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        ("gcp:billing/budget:Budget",), _no_quota_project, "GoogleCloudPlatform/cloud-foundation-fabric issue 3360"
    ),
    Refusal(("gcp:*",), _api_disabled, "terraform-google-modules/terraform-example-foundation issue 1142"),
    Refusal(
        ("gcp:kms/cryptoKeyIAMMember:*",), _agent_not_obtained, "hashicorp/terraform-provider-google issues 9969, 7611"
    ),
    Refusal(("gcp:storage/bucket:Bucket",), _key_not_granted, "GoogleCloudPlatform/magic-modules pull request 3747"),
    Refusal(("gcp:*IAMMember", "gcp:*IamMember"), _absent_account, "GoogleCloudPlatform/data-migration-tool issue 58"),
    Refusal(
        ("gcp:compute/firewall:Firewall", "gcp:compute/subnetwork:Subnetwork", "gcp:compute/router:Router"),
        _absent_network,
        "forseti-security/terraform-google-forseti pull request 488",
    ),
    Refusal((gke.CLUSTER,), gke_refusals.absent_network, "googlecloudrobotics/core issue 339"),
    Refusal((gke.POOL,), gke_refusals.absent_cluster, "hashicorp/terraform-provider-google issue 12472"),
    Refusal((gke.POOL,), gke_refusals.absent_account, "gruntwork-io/terraform-google-gke pull request 56"),
    Refusal((gke.POOL,), gke_refusals.compact_ironwood, "vllm-project/ci-infra pull request 547"),
    Refusal((gke.POOL,), gke_refusals.topology_of_one_host, "AI-Hypercomputer/xpk pull request 825"),
    Refusal((gke.POOL,), gke_refusals.bounds_of_no_slice, "vllm-project/ci-infra pull request 545"),
    Refusal((gke.POOL,), gke_refusals.part_of_a_slice, "AI-Hypercomputer/xpk issue 751"),
    Refusal(
        ("gcp:serviceaccount/iAMMember:IAMMember",),
        gke_refusals.absent_identity_pool,
        "terraform-google-modules/terraform-google-kubernetes-engine issue 916",
    ),
)


def check(making: Making) -> None:
    """Raises ResourceError in the words of the first refusal that holds."""
    for refusal in REFUSALS:
        concerned = any(fnmatchcase(making.token, pattern) for pattern in refusal.tokens)
        if concerned and (sentence := refusal.sentence(making)):
            raise ResourceError(sentence)


def check_update(token: str, identifier: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raises ResourceError where an update is sent to a thing of the new name, which is not there."""
    fields = provider_fields.of(token)
    for (key,) in fields.absent_after if fields else ():
        if new.get(key) is not None and new[key] != old.get(key):
            path = f"{identifier.rpartition('/')[0]}/{new[key]}"
            raise ResourceError(f"googleapi: Error 404: The resource '{path}' was not found, notFound")


def obtain_storage_agent(asked: Making) -> dict[str, Any]:
    """The agent of the project that the inputs name; there from now on. Raises ResourceError as a create does.

    A foundation asks for it before anything else, so a project whose APIs were enabled elsewhere gets that explained.
    """
    if not asked.exists("gcp:projects/service:Service", f"{asked.project}/storage.googleapis.com"):
        asked.store.must_have_made(asked.project, {})
    check(asked)
    outputs = {"id": _AGENT_EMAIL, "emailAddress": _AGENT_EMAIL, "member": _AGENT_MEMBER, "project": asked.project}
    asked.store.put(STORAGE_AGENT, asked.project, outputs)
    return outputs
