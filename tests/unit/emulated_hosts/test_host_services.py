"""Secret Manager and Cloud Logging as hosts of the emulated cloud see them."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping

import httpx
import pytest

from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.host_services import HostServices

WHO, OTHER = "trainer@p.iam.gserviceaccount.com", "other@p.iam.gserviceaccount.com"
SECRET = "projects/p/secrets/wandb"


@pytest.fixture
def services() -> Iterator[HostServices]:
    policies = BucketPolicies()
    policies.begin_project("p", {"roles/logging.logWriter": [f"serviceAccount:{WHO}"]})
    with HostServices({"t1": WHO, "t2": OTHER}, policies) as services:
        yield services


def access(services: HostServices, token: str, name: str = SECRET) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.get(f"{services.url}/v1/{name}/versions/latest:access", headers=headers)


def test_a_secret_is_read_by_whom_it_is_granted(services: HostServices) -> None:
    lever = f"{services.url}/_/secret"
    httpx.post(lever, json={"name": SECRET, "value": "hush", "readers": [WHO]}).raise_for_status()
    payload = access(services, "t1").json()["payload"]
    assert base64.b64decode(payload["data"]) == b"hush"
    assert [access(services, token).status_code for token in ("t2", "none", "")] == [403, 401, 401]
    unknown = access(services, "t1", "projects/p/secrets/none").json()["error"]["message"]
    assert "'secretmanager.versions.access' denied" in unknown
    httpx.post(lever, json={"name": SECRET, "value": None, "readers": [WHO]}).raise_for_status()
    assert access(services, "t1").json()["error"]["status"] == "NOT_FOUND"


def test_an_entry_is_kept_once_and_a_wrong_one_is_refused(services: HostServices) -> None:
    batch: dict[str, object] = {
        "logName": "projects/p/logs/slipway",
        "resource": {"type": "generic_node"},
        "entries": [{"insertId": "1", "jsonPayload": {"message": "a"}}, {"insertId": "2", "textPayload": "b"}],
    }

    def write(body: Mapping[str, object], account: str = "t1") -> int:
        headers = {"Authorization": f"Bearer {account}"}
        return httpx.post(f"{services.url}/v2/entries:write", json=body, headers=headers).status_code

    assert [write(batch), write(batch), write(batch, "none")] == [200, 200, 401]
    assert [entry["insertId"] for entry in httpx.get(f"{services.url}/_/entries").json()] == ["1", "2"]
    assert write(batch, "t2") == 403, "without roles/logging.logWriter"
    assert write(batch | {"logName": "projects/another/logs/slipway"}) == 403
    services.policies.set_of_project(
        "p", {"bindings": [{"role": "roles/editor", "members": [f"serviceAccount:{OTHER}"]}]}
    )
    assert [write(batch), write(batch, "t2")] == [403, 200]
    services.policies.set_of_project("p", {"bindings": [{"role": "roles/owner", "members": [f"serviceAccount:{WHO}"]}]})
    assert write(batch | {"resource": {}}) == 400
    assert write(batch | {"entries": [{"jsonPayload": {}, "textPayload": ""}]}) == 400
