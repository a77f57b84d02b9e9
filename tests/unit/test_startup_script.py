"""The startup script: one golden, what differs between stacks; clean, small, no secrets; run on a made-up host."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from infra.paths import TRAINING
from infra.stack_file.settings import any_from_file, stack_names
from infra.targets.tpu_vm.plan import host_script
from infra.targets.tpu_vm.settings import TpuVmSettings
from infra.vm_hosts.startup_script import (
    METADATA_LIMIT,
    HostScript,
    StartupScriptError,
    secret_variable,
    startup_script,
)
from tests.engine.project import until
from tests.golden_files import GOLDEN, check_golden

BOOTSTRAP = (TRAINING / "bootstrap.sh").read_text()
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
BUNDLE = "0123456789abcdef"
HOST = HostScript("demo", 2, 3, 4, "gs://artifacts", BUNDLE, (("wandb", "projects/p/secrets/s/versions/latest"),))

TPU_STACKS = [name for name in stack_names() if isinstance(any_from_file(name), TpuVmSettings)]


def settings_of(stack: str) -> TpuVmSettings:
    settings = any_from_file(stack)
    assert isinstance(settings, TpuVmSettings)
    return settings


def script_of(stack: str) -> str:
    """bootstrap.sh stands for itself: its text would be in the golden, and a test below says it is in the script."""
    return startup_script(host_script(settings_of(stack), BUNDLE), "# training/bootstrap.sh")


def test_golden() -> None:
    check_golden("startup.sh", script_of("v6e-32"))


@pytest.mark.parametrize("stack", TPU_STACKS)
def test_stacks_differ_in_their_size_their_bucket_and_their_secrets_alone(stack: str) -> None:
    settings = settings_of(stack)
    row, names = settings.row, settings.names
    secrets = [f"{secret_variable(name)} {names.secret_path(name)}" for name in settings.host_secrets]
    expected = (GOLDEN / "startup.sh").read_text()
    for line, replacement in (
        (
            "# v6e-32: 1 slices x 8 hosts x 4 chips",
            f"# {stack}: {settings.slices} slices x {row.hosts} hosts x {row.chips_per_host} chips",
        ),
        (
            "export SLIPWAY_ARTIFACTS=gs://slipway-artifacts-us-east5-my-project",
            f"export SLIPWAY_ARTIFACTS=gs://{names.artifacts_bucket}",
        ),
        ("# none", "\n".join(secrets) or "# none"),
    ):
        assert expected.count(f"\n{line}\n") == 1
        expected = expected.replace(f"\n{line}\n", f"\n{replacement}\n")
    assert script_of(stack) == expected


def test_it_holds_bootstrap_as_it_is_and_fits() -> None:
    script = startup_script(HOST, BOOTSTRAP)
    assert f"\n{BOOTSTRAP}SLIPWAY_BOOTSTRAP\n" in script
    assert len(script.encode()) < METADATA_LIMIT / 4
    with pytest.raises(StartupScriptError, match=r"metadata takes 262,144; shorten training/bootstrap.sh"):
        startup_script(HOST, "#" * METADATA_LIMIT)
    with pytest.raises(StartupScriptError, match="has a line that ends its copy"):
        startup_script(HOST, "echo\nSLIPWAY_BOOTSTRAP\necho")


def test_secrets_are_there_by_name_only() -> None:
    secrets = (("wandb", "projects/p/secrets/w/versions/latest"), ("my-key", "projects/p/secrets/k/versions/latest"))
    script = startup_script(dataclasses.replace(HOST, secrets=secrets), BOOTSTRAP)
    assert "WANDB_API_KEY projects/p/secrets/w/versions/latest\nMY_KEY projects/p/secrets/k/versions/latest\n" in script
    assert secret_variable("huggingface") == "HF_TOKEN"


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    script = startup_script(HOST, BOOTSTRAP)
    scripts = {"startup.sh": script}
    for name, mark in (("run.sh", "SLIPWAY_RUN"), ("report.sh", "SLIPWAY_REPORT")):
        scripts[name] = script.split(f"<<'{mark}'\n")[1].split(f"\n{mark}\n")[0] + "\n"
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([SHELLCHECK, *scripts], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# --- as a process ---


class Metadata(BaseHTTPRequestHandler):
    """Token, secret and guest attributes, as a host sees them."""

    reports: ClassVar[list[dict[str, object]]] = []

    def do_GET(self) -> None:
        if self.path.endswith("/service-accounts/default/token"):
            assert self.headers["Metadata-Flavor"] == "Google"
            self._answer({"access_token": "t0k3n", "expires_in": 300})
        elif self.path == "/v1/projects/p/secrets/s/versions/latest:access":
            assert self.headers["Authorization"] == "Bearer t0k3n"
            self._answer({"name": "s", "payload": {"data": "aHVzaA==", "dataCrc32c": "1"}})
        else:
            self.send_error(404)

    def do_PUT(self) -> None:
        assert self.path == "/computeMetadata/v1/instance/guest-attributes/slipway/status"
        self.reports.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self._answer({})

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def _answer(self, value: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value, indent=1).encode())


@pytest.fixture
def server() -> ThreadingHTTPServer:
    Metadata.reports.clear()
    metadata = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    Thread(target=metadata.serve_forever, daemon=True).start()
    return metadata


def boot(home: Path, script: str, server: ThreadingHTTPServer) -> list[str]:
    """Run the script with a systemctl that writes down what it was told."""
    tools, units = home / "tools", home / "units"
    tools.mkdir(exist_ok=True)
    units.mkdir(exist_ok=True)
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>"{home}/systemctl.log"\n')
    (tools / "systemctl").chmod(0o755)
    (home / "systemctl.log").write_text("")
    done = subprocess.run(
        ["bash", "-c", script], env=environment(home, server), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return (home / "systemctl.log").read_text().splitlines()


def environment(home: Path, server: ThreadingHTTPServer) -> dict[str, str]:
    address = f"127.0.0.1:{server.server_port}"
    return {
        "PATH": f"{home / 'tools'}:{os.environ['PATH']}",
        "SLIPWAY_HOME": str(home / "home with a space"),
        "SLIPWAY_UNITS": str(home / "units"),
        "GCE_METADATA_HOST": address,
        "SLIPWAY_SECRETS_ENDPOINT": f"http://{address}",
        "SLIPWAY_REPORT_S": "0.05",
        "no_proxy": "*",
    }


def test_every_boot_runs_it_and_only_a_change_restarts_training(tmp_path: Path, server: ThreadingHTTPServer) -> None:
    script = startup_script(HOST, BOOTSTRAP)
    first = boot(tmp_path, script, server)
    assert first[1:] == [
        "enable slipway.service slipway-report.service",
        "restart slipway-report.service slipway.service",
    ]
    home = tmp_path / "home with a space"
    assert (home / "bootstrap.sh").read_text() == BOOTSTRAP
    again = boot(tmp_path, script, server)
    assert again[-1] == "start slipway-report.service slipway.service"
    other = boot(tmp_path, startup_script(dataclasses.replace(HOST, bundle="f" * 16), BOOTSTRAP), server)
    assert other[-1] == "restart slipway-report.service slipway.service"
    unit = (tmp_path / "units" / "slipway.service").read_text()
    assert f'ExecStart=/bin/bash "{home}/run.sh"\n' in unit
    assert "Restart=on-failure\n" in unit
    assert "RestartPreventExitStatus=2 3\n" in unit


def test_bootstrap_finds_its_variables_and_secrets(tmp_path: Path, server: ThreadingHTTPServer) -> None:
    boot(tmp_path, startup_script(HOST, "env\nprintf '%s\\n' \"$WANDB_API_KEY\"\n"), server)
    home = tmp_path / "home with a space"
    done = subprocess.run(
        ["bash", str(home / "run.sh")], env=environment(tmp_path, server), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert variables["SLIPWAY_ARTIFACTS"] == "gs://artifacts"
    assert variables["SLIPWAY_BUNDLE"] == BUNDLE
    assert variables["SLIPWAY_ROOT"] == str(home)
    assert variables["WANDB_API_KEY"] == "hush"
    assert not any("hush" in path.read_text() for path in home.rglob("*") if path.is_file()), "never written down"


def test_a_secret_that_cannot_be_read_stops_the_start(tmp_path: Path, server: ThreadingHTTPServer) -> None:
    lost = dataclasses.replace(HOST, secrets=(("wandb", "projects/p/secrets/none/versions/latest"),))
    boot(tmp_path, startup_script(lost, "echo started"), server)
    script = tmp_path / "home with a space" / "run.sh"
    done = subprocess.run(
        ["bash", str(script)], env=environment(tmp_path, server), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "secret projects/p/secrets/none/versions/latest cannot be read" in done.stderr
    assert "started" not in done.stdout


def test_each_phase_and_each_standstill_is_reported_once(tmp_path: Path, server: ThreadingHTTPServer) -> None:
    boot(tmp_path, startup_script(HOST, BOOTSTRAP), server)
    home = tmp_path / "home with a space"
    reporter = subprocess.Popen(["bash", str(home / "report.sh")], env=environment(tmp_path, server))
    try:
        until(lambda: len(Metadata.reports) == 1, "booting is reported")
        status = {"phase": "training", "exit_code": None, "reason": None}
        (home / "host" / "status.json").write_text(json.dumps(status) + "\n")
        until(lambda: len(Metadata.reports) == 2, "training is reported")
        (home / "host" / "status.json").write_text(json.dumps(status | {"still_since": 1.5}) + "\n")
        until(lambda: len(Metadata.reports) == 3, "that it stands still is reported")
        (home / "host" / "status.json").write_text(json.dumps(status | {"still_since": None}) + "\n")
        until(lambda: len(Metadata.reports) == 4, "that it goes on is reported")
        (home / "host" / "status.json").write_text(json.dumps(status | {"phase": "finished"}) + "\n")
        until(lambda: len(Metadata.reports) == 5, "the end is reported")
    finally:
        reporter.kill()
        reporter.wait()
    assert Metadata.reports[0] == {"bundle": BUNDLE, "status": {"phase": "booting"}}
    phases = [report["status"]["phase"] for report in Metadata.reports]  # pyright: ignore
    assert phases == ["booting", "training", "training", "training", "finished"]
