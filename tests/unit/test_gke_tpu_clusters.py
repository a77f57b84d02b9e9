"""Clusters as GKE's API tells of them: found by label, deleted and waited for; and who asks a cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.commands.main import app
from infra.emulated import STAND_IN, TPU
from infra.gke import clusters, reach
from infra.google_login import LOGIN_COMMAND
from infra.targets.errors import TargetError

PLACE = "projects/ours/locations/us-east5"
LABELS = {"slipway-owner": "ada", "slipway-stack": "gke-v6e-32", "slipway-state": "0a1b2c-0123456789ab"}


class GkeApi:
    """The part of container.googleapis.com (v1) that is asked, as its reference has it: a delete takes two looks.

    Written from the documentation, never compared with the real service.
    """

    def __init__(self) -> None:
        self.clusters: dict[str, dict[str, Any]] = {}
        self.refuses: tuple[int, str] | None = None
        self.silent_zones: list[str] = []
        self._looks_until_gone: dict[str, int] = {}

    def add(self, name: str, labels: dict[str, str]) -> str:
        path = f"{PLACE}/clusters/{name}"
        made = {"name": name, "location": "us-east5", "status": "RUNNING", "resourceLabels": labels}
        self.clusters[path] = made
        return path

    def answer(self, method: str, path: str) -> tuple[int, dict[str, Any]]:
        if self.refuses:
            return self.refuses[0], {"error": {"code": self.refuses[0], "message": self.refuses[1]}}
        if path == "projects/ours/locations/-/clusters":
            return 200, {"clusters": list(self.clusters.values()), "missingZones": self.silent_zones}
        if path not in self.clusters:
            return 404, {"error": {"code": 404, "message": f"Not found: {path}.", "status": "NOT_FOUND"}}
        if method == "DELETE":
            if path in self._looks_until_gone:
                busy = f"Cluster is running incompatible operation on {path}."
                return 400, {"error": {"code": 400, "message": busy, "status": "FAILED_PRECONDITION"}}
            self._looks_until_gone[path] = 2
            return 200, {"name": "operation-1", "status": "RUNNING"}
        if path in self._looks_until_gone:
            self._looks_until_gone[path] -= 1
            if not self._looks_until_gone[path]:
                return 200, self.clusters.pop(path)
        return 200, self.clusters[path]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[GkeApi]:
    served = GkeApi()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            assert self.path.startswith("/v1/")
            status, value = served.answer(self.command, self.path.removeprefix("/v1/"))
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_DELETE = _serve  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("GOOGLE_CONTAINER_CUSTOM_ENDPOINT", f"http://127.0.0.1:{server.server_address[1]}/v1/")
        monkeypatch.delenv(STAND_IN, raising=False)
        yield served
        server.shutdown()


def test_a_projects_clusters_are_ours_by_their_label(api: GkeApi) -> None:
    ours = api.add("slipway-gke-v6e-32", LABELS)
    api.add("theirs", {"team": "web"})
    (billed,) = clusters.billed("ours", print)
    assert (billed.name, billed.stack, billed.state, billed.owner) == (ours, "gke-v6e-32", "running", "ada")
    assert clusters.named("ours", "us-east5", "slipway-gke-v6e-32") == api.clusters[ours]
    assert clusters.named("ours", "us-east5", "absent") is None


def test_a_delete_is_waited_for_and_one_that_is_under_way_is_fine(api: GkeApi) -> None:
    ours, kept = api.add("slipway-gke-v6e-32", LABELS), api.add("theirs", {})
    assert clusters.remove([ours], print) == [ours]
    assert list(api.clusters) == [kept]


def test_a_region_that_does_not_answer_is_no_region_without_clusters(api: GkeApi) -> None:
    api.silent_zones = ["us-east5"]
    with pytest.raises(TargetError, match="does not tell which clusters there are in us-east5; run it again"):
        clusters.billed("ours", print)


def test_a_project_that_never_used_gke_has_no_cluster(api: GkeApi) -> None:
    api.refuses = 403, "Kubernetes Engine API has not been used in project ours before or it is disabled."
    assert clusters.billed("ours", print) == []
    assert clusters.named("ours", "us-east5", "c") is None


def test_who_may_not_ask_is_told_which_role_may(api: GkeApi) -> None:
    api.refuses = 403, "Required 'container.clusters.list' permission."
    with pytest.raises(TargetError, match=r"container.clusters.list.*roles/container.clusterAdmin"):
        clusters.billed("ours", print)


def test_an_emulated_cloud_of_tpus_has_no_gke(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real Google is not asked of a project that only an emulator knows."""
    monkeypatch.delenv(STAND_IN, raising=False)
    monkeypatch.setenv(TPU, "http://127.0.0.1:9")
    assert clusters.billed("try-it", print) == ()


def test_a_stack_without_a_cluster_has_no_hosts(api: GkeApi) -> None:
    hosts = reach.hosts("gke-v6e-32")
    assert hosts.states() == ()
    with pytest.raises(TargetError, match="stack 'gke-v6e-32' has nothing there; run: pulumi up --stack gke-v6e-32"):
        hosts.start()


# --- who asks ---


def test_a_token_that_is_given_is_the_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "t0k3n")
    done = CliRunner().invoke(app, ["token"])
    assert done.exit_code == 0
    assert json.loads(done.output) == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "t0k3n"},
    }


def test_without_credentials_the_way_to_get_them_is_said(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    done = CliRunner().invoke(app, ["token"])
    assert done.exit_code == 2
    assert f"run: {LOGIN_COMMAND}" in done.output
