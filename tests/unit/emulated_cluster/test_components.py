"""The parts of an emulated control plane: where they listen, what they may do, what is applied and what is left out."""

from __future__ import annotations

import base64
import csv
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from infra.emulators.cluster import api_accounts, components, emulated_cluster, manifests, processes
from infra.emulators.cluster.built_programs import ClusterPrograms, Manifest
from infra.emulators.cluster.certificates import Certificates
from infra.emulators.cluster.components import Component, Layout, Ports
from infra.emulators.cluster.emulated_cluster import ClusterError
from infra.emulators.cluster.processes import ComponentError, Processes

PORTS = Ports(*range(20000, 20000 + len(fields(Ports))))


def layout(directory: Path, keeps: bool = False) -> Layout:
    return Layout(directory, ClusterPrograms(Path("/programs")), PORTS, keeps)


def every(directory: Path) -> list[Component]:
    made = layout(directory)
    parts = (components.etcd, components.controllers, components.scheduler, components.jobset, components.kueue)
    parts = (*parts, components.kwok)
    return [components.api_server(made, directory / "tokens.csv"), *(part(made) for part in parts)]


def test_everything_listens_on_loopback_alone(tmp_path: Path) -> None:
    for component in every(tmp_path):
        assert component.ready_url.partition("://")[2].startswith("127.0.0.1:")
        assert not re.findall(r"[=/](?:0\.0\.0\.0|:[0-9]|\[::\])", " ".join(component.command))
    for told in (components.jobset_configuration, components.kueue_configuration):
        configuration = told(layout(tmp_path))
        assert configuration["webhook"]["host"] == "127.0.0.1"
        assert configuration["health"]["healthProbeBindAddress"].startswith("127.0.0.1:")
        assert configuration["metrics"]["bindAddress"] == "0"


def test_only_a_state_that_is_kept_waits_for_the_disk(tmp_path: Path) -> None:
    assert "--unsafe-no-fsync" in components.etcd(layout(tmp_path)).command
    assert "--unsafe-no-fsync" not in components.etcd(layout(tmp_path, keeps=True)).command


def test_nobody_but_the_person_is_an_administrator(tmp_path: Path) -> None:
    tokens = api_accounts.write(tmp_path, "https://127.0.0.1:1", tmp_path / "ca.crt")
    with tokens.open(newline="") as file:
        groups = {user: groups.split(",") for _, user, _, groups in csv.reader(file)}
    assert [user for user, each in groups.items() if "system:masters" in each] == ["admin"]
    assert groups["system:serviceaccount:jobset-system:jobset-controller-manager"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:jobset-system",
    ]


def test_tokens_are_for_whoever_started_it(tmp_path: Path) -> None:
    tokens = api_accounts.write(tmp_path, "https://127.0.0.1:1", tmp_path / "ca.crt")
    for file in (tokens, tmp_path / api_accounts.ADMIN.file):
        assert file.stat().st_mode & 0o077 == 0


def test_webhooks_are_asked_on_this_machine() -> None:
    client = {"service": {"name": "jobset-webhook-service", "namespace": "jobset-system", "path": "/mutate"}}
    hook: Manifest = {"kind": "MutatingWebhookConfiguration", "webhooks": [{"name": "a", "clientConfig": client}]}
    pods: list[Manifest] = [{"kind": kind} for kind in ("Deployment", "Service", "ConfigMap", "APIService")]
    (adapted,) = manifests.adapted([*pods, hook], 20001, b"authority")
    (changed,) = adapted["webhooks"]
    assert changed["clientConfig"] == {
        "url": "https://127.0.0.1:20001/mutate",
        "caBundle": base64.b64encode(b"authority").decode(),
    }


def test_pods_of_jobs_are_not_ended_as_if_they_had_succeeded(tmp_path: Path) -> None:
    built = ClusterPrograms(tmp_path)
    (tmp_path / "manifests").mkdir()
    for file, names in {"kwok-nodes": ["node-initialize"], "kwok-pods": ["pod-ready", "pod-complete"]}.items():
        stages = [{"kind": "Stage", "metadata": {"name": name}} for name in names]
        (tmp_path / "manifests" / f"{file}.yaml").write_text(yaml.safe_dump_all(stages))
    made = Layout(tmp_path, built, PORTS, keeps=False)
    made.certificates.make()
    assert [each["metadata"]["name"] for each in manifests.stages(made)] == ["node-initialize", "pod-ready"]


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A server with the certificate of a cluster."""
    certificates = Certificates(tmp_path / "certificates")
    certificates.make()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate, certificates.key)
    with HTTPServer(("127.0.0.1", 0), _Answers) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}/readyz"
        server.shutdown()
        thread.join()


def running(directory: Path) -> Processes:
    return Processes(directory, layout(directory).log, layout(directory).certificates.authority)


def shell(script: str, ready: str) -> Component:
    return Component("a-component", ("sh", "-c", script), ready)


def test_the_certificate_is_trusted_for_this_machine_and_made_once(tmp_path: Path, served: str) -> None:
    certificates = Certificates(tmp_path / "certificates")
    before = certificates.certificate.read_bytes()
    certificates.make()
    assert certificates.certificate.read_bytes() == before
    with running(tmp_path) as parts:
        ready = shell("sleep 1000", served)
        parts.start(ready)
        parts.wait_ready(ready)
    assert processes.processes_of(tmp_path) == []


def test_a_part_that_ends_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    Certificates(tmp_path / "certificates").make()
    with running(tmp_path) as parts:
        ends = shell("echo first; echo no space left >&2; exit 3", "http://127.0.0.1:1/")
        parts.start(ends)
        with pytest.raises(
            ComponentError, match=r"(?s)a-component has ended with code 3; the end of its log:.*no space"
        ):
            parts.wait_ready(ends)


def test_parts_end_with_an_emulator_that_is_killed(tmp_path: Path) -> None:
    """Nobody is left who could end them."""
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from tests.unit.emulated_cluster.test_components import running, shell\n"
        "parts = running(Path(sys.argv[1]))\n"
        "parts.start(shell('echo started; exec sleep 1000', 'http://127.0.0.1:1/'))\n"
        "print(flush=True)\nsys.stdin.read()\n"
    )
    emulator = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with emulator:
        assert emulator.stdout and emulator.stdin
        emulator.stdout.readline()
        (part,) = processes.processes_of(tmp_path)
        os.kill(emulator.pid, signal.SIGKILL)
        part.wait(60)
    assert processes.processes_of(tmp_path) == []


def test_a_port_that_is_taken_is_refused_by_its_number(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(ClusterError, match=f"port {port} cannot be used"),
            emulated_cluster.run(tmp_path, ClusterPrograms(tmp_path), port=port),
        ):
            raise AssertionError


def test_a_state_is_one_clusters_at_a_time(tmp_path: Path) -> None:
    programs = ClusterPrograms(tmp_path)
    with (
        emulated_cluster.reserved(tmp_path),
        pytest.raises(ClusterError, match="is the state of a cluster that runs"),
        emulated_cluster.run(tmp_path, programs),
    ):
        raise AssertionError
