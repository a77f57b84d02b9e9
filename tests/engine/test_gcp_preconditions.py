"""What the stand-in refuses to make as Google does: each refusal alone, put to the plugin as the engine does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from infra import names
from infra.engine import google_plugin
from infra.standins.gcp import preconditions
from infra.standins.gcp.store import STATE_VARIABLE, StandInStore

NAMES = names.of("real-project", "us-central1", "slipway")
AGENT = "serviceAccount:service-0@gs-project-accounts.iam.gserviceaccount.com"
HOSTS = f"serviceAccount:{NAMES.account_email}"
RING = "projects/real-project/locations/us-central1/keyRings/slipway"
KEY = f"{RING}/cryptoKeys/state"

type Thing = tuple[str, dict[str, Any]]

IN = {"project": "real-project"}
NETWORK: Thing = ("gcp:compute/network:Network", IN | {"name": NAMES.network})
FIREWALL: Thing = ("gcp:compute/firewall:Firewall", IN | {"name": "f", "network": NAMES.network_path})
SUBNET: Thing = ("gcp:compute/subnetwork:Subnetwork", IN | {"name": "s", "network": NAMES.network_path, "region": "r"})
ACCOUNT: Thing = ("gcp:serviceaccount/account:Account", IN | {"accountId": NAMES.account_id})
BUCKET: Thing = ("gcp:storage/bucket:Bucket", IN | {"name": "data", "location": "us-central1"})
ENCRYPTED: Thing = (BUCKET[0], BUCKET[1] | {"encryption": {"defaultKmsKeyName": KEY}})
READS: Thing = ("gcp:storage/bucketIAMMember:BucketIAMMember", {"bucket": "data", "role": "r", "member": HOSTS})
WRITES_LOGS: Thing = ("gcp:projects/iAMMember:IAMMember", IN | {"role": "r", "member": HOSTS})
RING_ITSELF: Thing = ("gcp:kms/keyRing:KeyRing", IN | {"name": "slipway", "location": "us-central1"})
KEY_ITSELF: Thing = ("gcp:kms/cryptoKey:CryptoKey", {"name": "state", "keyRing": RING})
KEY_GRANT: Thing = (
    "gcp:kms/cryptoKeyIAMMember:CryptoKeyIAMMember",
    {"cryptoKeyId": KEY, "role": "roles/cloudkms.cryptoKeyEncrypterDecrypter", "member": AGENT},
)
SECRET: Thing = ("gcp:secretmanager/secret:Secret", IN | {"secretId": "s"})
REPOSITORY: Thing = (
    "gcp:artifactregistry/repository:Repository",
    IN | {"repositoryId": "r", "location": "l", "format": "DOCKER"},
)
BUDGET: Thing = ("gcp:billing/budget:Budget", {"billingAccount": "012345-6789AB-CDEF01"})
QUOTA = {"billingProject": "real-project", "userProjectOverride": "true"}


def service(name: str) -> Thing:
    return ("gcp:projects/service:Service", IN | {"service": f"{name}.googleapis.com"})


@dataclass(frozen=True)
class Plugin:
    """The stand-in with a directory to make things in."""

    stub: Any
    directory: Path

    def configure(self, **settings: str) -> None:
        self.stub.Configure(provider_pb2.ConfigureRequest(args=struct(settings), acceptSecrets=True), timeout=900)

    def make(self, *things: Thing) -> str:
        """Of the last one why it is not made, empty where it is; all before it are made."""
        *ready, last = things
        for thing in ready:
            assert self._create(thing) == ""
        return self._create(last)

    def ask_for_agent(self) -> str:
        return said(
            lambda: self.stub.Invoke(provider_pb2.InvokeRequest(tok=preconditions.STORAGE_AGENT, args=struct(IN)))
        )

    def _create(self, thing: Thing) -> str:
        token, inputs = thing
        urn = f"urn:pulumi:t::cloud::{token}::x"
        return said(
            lambda: self.stub.Create(provider_pb2.CreateRequest(urn=urn, properties=struct(inputs)), timeout=900)
        )


def said(call: Any) -> str:
    try:
        call()
    except grpc.RpcError as error:
        return str(error.details())  # pyright: ignore[reportAttributeAccessIssue]
    return ""


def struct(values: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(values)
    return made


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Plugin]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GOOGLE", "GCLOUD"))}
    environment[STATE_VARIABLE] = str(tmp_path)
    command = [google_plugin.DIRECTORY / google_plugin.EXECUTABLE, ""]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        channel = grpc.insecure_channel(f"127.0.0.1:{process.stdout.readline().strip()}")
        try:
            yield Plugin(provider_pb2_grpc.ResourceProviderStub(channel), tmp_path)
        finally:
            channel.close()
            process.kill()


# What is made only where its API is enabled.
OF_AN_API: dict[str, tuple[Thing, ...]] = {
    "artifactregistry": (REPOSITORY,),
    "cloudkms": (RING_ITSELF, KEY_ITSELF),
    "cloudresourcemanager": (WRITES_LOGS,),
    "compute": (NETWORK, FIREWALL),
    "iam": (ACCOUNT,),
    "secretmanager": (SECRET,),
    "storage": (BUCKET,),
}


@pytest.mark.parametrize("api", OF_AN_API)
def test_nothing_is_made_before_its_api_is_enabled(plugin: Plugin, api: str) -> None:
    if api != "iam":
        assert plugin.make(service("iam"), ACCOUNT) == ""
    refused = plugin.make(OF_AN_API[api][0])
    assert refused.startswith("Error 403: ")
    assert " API has not been used in project real-project before or it is disabled. Enable it by visiting " in refused
    assert f"/apis/api/{api}.googleapis.com/overview?project=real-project then retry." in refused
    assert plugin.make(service(api), *OF_AN_API[api]) == ""


def test_budget_needs_its_api_and_a_quota_project(plugin: Plugin) -> None:
    assert "The billingbudgets.googleapis.com API requires a quota project" in plugin.make(BUDGET)
    plugin.configure(billingProject="real-project")
    assert "requires a quota project" in plugin.make(BUDGET), "the provider sends it only where it may override"
    plugin.configure(**QUOTA)
    assert "Cloud Billing Budget API has not been used in project real-project" in plugin.make(BUDGET)
    assert plugin.make(service("billingbudgets"), BUDGET) == ""


def test_storage_agent_is_granted_only_after_somebody_asked_for_it(plugin: Plugin) -> None:
    assert "was not made by this stand-in for Google's plugin, so it may be real" in plugin.ask_for_agent()
    refused = plugin.make(service("cloudkms"), service("storage"), RING_ITSELF, KEY_ITSELF, BUCKET, KEY_GRANT)
    assert refused.endswith(
        "googleapi: Error 400: Service account service-0@gs-project-accounts.iam.gserviceaccount.com does not exist., "
        "badRequest"
    ), "a bucket does not make it"
    assert plugin.ask_for_agent() == ""
    assert plugin.make(KEY_GRANT) == ""


def test_bucket_with_a_key_needs_the_grant_on_it(plugin: Plugin) -> None:
    ready = (service("cloudkms"), service("storage"), RING_ITSELF, KEY_ITSELF)
    assert plugin.make(*ready, ENCRYPTED) == (
        "googleapi: Error 403: Permission denied on Cloud KMS key. Please ensure that your Cloud Storage service "
        "account has been authorized to use this key., forbidden"
    )
    assert plugin.ask_for_agent() == ""
    assert plugin.make(KEY_GRANT, ENCRYPTED) == ""


def test_grant_to_an_account_that_is_not_there(plugin: Plugin) -> None:
    ready = (service("storage"), service("cloudresourcemanager"), service("iam"), BUCKET)
    for grant in (READS, WRITES_LOGS):
        assert plugin.make(*ready, grant).endswith(
            f"googleapi: Error 400: Service account {NAMES.account_email} does not exist., invalid"
        )
        ready = ()
    assert plugin.make(ACCOUNT, READS) == ""
    assert plugin.make(WRITES_LOGS) == ""
    scoped = names.of("example.com:x", "us-central1", "slipway")
    member = f"serviceAccount:{scoped.account_email}"
    in_scoped = {"project": scoped.project}
    apis = [("gcp:projects/service:Service", in_scoped | {"service": f"{api}.googleapis.com"})
            for api in ("iam", "cloudresourcemanager")]  # fmt: skip
    grant: Thing = (WRITES_LOGS[0], in_scoped | {"role": "r", "member": member})
    assert "does not exist" in plugin.make(*apis, grant)
    account: Thing = (ACCOUNT[0], in_scoped | {"accountId": scoped.account_id})
    assert plugin.make(account, grant) == ""
    people: Thing = (WRITES_LOGS[0], IN | {"role": "r", "member": "user:me@example.com"})
    assert plugin.make(people) == ""


def test_firewall_and_subnet_in_a_network_that_is_not_there(plugin: Plugin) -> None:
    assert plugin.make(service("compute"), FIREWALL) == (
        "googleapi: Error 404: The resource 'projects/real-project/global/networks/slipway-us-central1' was not found, "
        "notFound"
    )
    assert "Error 404" in plugin.make(SUBNET)
    assert plugin.make(NETWORK, FIREWALL) == ""
    by_name: Thing = (SUBNET[0], SUBNET[1] | {"network": NAMES.network})
    assert plugin.make(by_name) == ""


def test_a_refused_thing_is_not_there(plugin: Plugin) -> None:
    assert plugin.make(BUCKET) != ""
    assert StandInStore(str(plugin.directory), "").read(BUCKET[0], "data") is None


def test_every_refusal_says_where_it_was_seen() -> None:
    assert [refusal for refusal in preconditions.REFUSALS if not refusal.seen] == []
