"""The emulated metadata server, asked by Google's library, by curl, and as its documentation says."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from infra.emulators.metadata_server import EMAIL, MetadataServer

GOOGLE = {"Metadata-Flavor": "Google"}


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    with MetadataServer(attributes={"enable-guest-attributes": "TRUE", "my-key": "1"}) as server:
        yield server


def get(server: MetadataServer, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{server.url}/computeMetadata/v1/{path}", headers=GOOGLE | headers, timeout=900)


ASK_GOOGLES_LIBRARY = """
import google.auth
from google.auth.transport.requests import Request
credentials, project = google.auth.default()
credentials.refresh(Request())
print(type(credentials).__module__, project, credentials.service_account_email, credentials.token)
"""


def test_googles_library_finds_itself_on_a_vm(server: MetadataServer, tmp_path: Path) -> None:
    """As on a host: nothing but the two variables tells it."""
    own = {"GCE_METADATA_HOST": server.host, "GCE_METADATA_IP": server.host, "HOME": str(tmp_path), "no_proxy": "*"}
    command = [sys.executable, "-c", ASK_GOOGLES_LIBRARY]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=False)
    expected = f"google.auth.compute_engine.credentials a-project {EMAIL} {server.token}"
    assert done.stdout.strip() == expected, done.stderr


def test_a_directory_lists_and_recursively_is_json_in_camel_case(server: MetadataServer) -> None:
    assert "attributes/" in get(server, "instance/").text.splitlines()
    assert get(server, "instance/attributes/").text == "enable-guest-attributes\nmy-key"
    instance = get(server, "instance/?recursive=true").json()
    assert instance["maintenanceEvent"] == "NONE"
    assert instance["attributes"] == {"enable-guest-attributes": "TRUE", "my-key": "1"}
    assert get(server, f"instance/service-accounts/{EMAIL}/token").json()["access_token"] == server.token
    assert get(server, "instance/service-accounts/other/token").status_code == 404


def test_who_is_no_client_of_the_vm_is_refused(server: MetadataServer) -> None:
    url = f"{server.url}/computeMetadata/v1/instance/name"
    assert httpx.get(url).status_code == 403
    assert get(server, "instance/name", **{"X-Forwarded-For": "10.0.0.1"}).status_code == 403
    assert get(server, "instance/none").status_code == 404


def test_a_long_poll_ends_with_the_change(server: MetadataServer) -> None:
    etag = get(server, "instance/attributes/my-key").headers["ETag"]
    answers: list[httpx.Response] = []
    path = f"instance/attributes/my-key?wait_for_change=true&last_etag={etag}"
    poll = threading.Thread(target=lambda: answers.append(get(server, path)))
    poll.start()
    server.set_attributes({"my-key": "2"})
    poll.join()
    assert (answers[0].text, answers[0].headers["ETag"] != etag) == ("2", True)
    assert get(server, f"{path}&timeout_sec=0").text == "2", "what has changed before is answered at once"


def test_curl_writes_guest_attributes_where_the_vm_has_them(server: MetadataServer) -> None:
    said: list[tuple[str, str, str | None]] = []
    server.publish = lambda namespace, key, value: said.append((namespace, key, value))
    url = f"{server.url}/computeMetadata/v1/instance/guest-attributes/slipway/status"
    put = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Metadata-Flavor: Google", "--noproxy", "*"]
    put += ["-X", "PUT", "--data-binary", "booting", url]
    assert subprocess.check_output(put, text=True) == "200"
    assert get(server, "instance/guest-attributes/slipway/status").text == "booting"
    httpx.delete(url, headers=GOOGLE).raise_for_status()
    assert said == [("slipway", "status", "booting"), ("slipway", "status", None)]
    server.set_attributes({})
    assert subprocess.check_output(put, text=True) == "403"
