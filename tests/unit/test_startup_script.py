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
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest

from infra.emulators.tpu_hosts.unit_file import parse
from infra.host_secrets import HostSecret, host_secret, problem
from infra.paths import ROOT, TRAINING
from infra.stack_file.settings import any_from_file, stack_names
from infra.targets.tpu_vm.plan import host_script
from infra.targets.tpu_vm.settings import TpuVmSettings
from infra.vm_hosts.startup_script import (
    DATA_DISK,
    DATA_MOUNT,
    METADATA_LIMIT,
    DataMount,
    HostScript,
    StartupScriptError,
    asking,
    startup_script,
)
from tests.golden_files import GOLDEN, check_golden

BOOTSTRAP = (TRAINING / "bootstrap.sh").read_text()
SHELLCHECK = Path(sys.executable).with_name("shellcheck")
FILES = {path.name: path.read_text() for path in sorted((ROOT / "infra" / "vm_hosts").glob("*.sh"))}
BUNDLE = "0123456789abcdef"
OBJECTS = "/storage/v1/b/artifacts/o/"
WANDB = HostSecret("WANDB_API_KEY", "projects/p/secrets/s/versions/latest", optional=True)
HOST = HostScript("demo", 2, 3, 4, "gs://artifacts", BUNDLE, (WANDB,))
MOUNT = DataMount("gs://data/prepared", "a" * 64)

STRANGE = """100% of %h, $HOME, ${HOME} & it's "quoted" \\ twice"""
TPU_STACKS = [name for name in stack_names() if isinstance(any_from_file(name), TpuVmSettings)]


def settings_of(stack: str) -> TpuVmSettings:
    settings = any_from_file(stack)
    assert isinstance(settings, TpuVmSettings)
    return settings


def script_of(stack: str) -> str:
    """Each file stands for itself: its text would be in the golden, and a test below says it is in the script."""
    script = startup_script(host_script(settings_of(stack), BUNDLE), "# bootstrap.sh")
    for name, text in FILES.items():
        script = script.replace(text, f"# {name}\n")
    return script


def test_golden() -> None:
    check_golden("startup.sh", script_of("v6e-32"))


@pytest.mark.parametrize("stack", TPU_STACKS)
def test_stacks_differ_in_their_size_their_bucket_and_their_secrets_alone(stack: str) -> None:
    settings = settings_of(stack)
    row, names = settings.row, settings.names
    assert not settings.host_secrets
    expected = (GOLDEN / "startup.sh").read_text()
    for line, replacement in (
        (
            "# v6e-32: 1 slices x 8 hosts x 4 chips",
            f"# {stack}: {settings.slices} slices x {row.hosts} hosts x {row.chips_per_host} chips",
        ),
        ("export SLIPWAY_STACK=v6e-32", f"export SLIPWAY_STACK={stack}"),
        (
            "export SLIPWAY_ARTIFACTS=gs://slipway-artifacts-us-east5-my-project",
            f"export SLIPWAY_ARTIFACTS=gs://{names.artifacts_bucket}",
        ),
    ):
        assert expected.count(f"\n{line}\n") == 1
        expected = expected.replace(f"\n{line}\n", f"\n{replacement}\n")
    assert script_of(stack) == expected


def test_it_holds_its_files_as_they_are_and_fits() -> None:
    script = startup_script(dataclasses.replace(HOST, data_mount=MOUNT), BOOTSTRAP)
    for name, text in (FILES | {"bootstrap.sh": BOOTSTRAP}).items():
        assert f"/{name}\" <<'SLIPWAY_END_OF_FILE'\n{text}SLIPWAY_END_OF_FILE\n" in script
    assert len(script.encode()) < METADATA_LIMIT / 4
    with pytest.raises(StartupScriptError, match=r"metadata takes 262,144; shorten training/bootstrap.sh"):
        startup_script(HOST, "#" * METADATA_LIMIT)
    with pytest.raises(StartupScriptError, match="has a line that ends its copy"):
        startup_script(HOST, "echo\nSLIPWAY_END_OF_FILE\necho")


def test_secrets_are_there_by_name_only() -> None:
    secrets = tuple(host_secret(name, f"projects/p/secrets/{name}/versions/latest") for name in ("wandb", "my-key"))
    script = startup_script(dataclasses.replace(HOST, secrets=secrets), BOOTSTRAP)
    wandb, other = "projects/p/secrets/wandb/versions/latest", "projects/p/secrets/my-key/versions/latest"
    assert f"\nexport SLIPWAY_SECRETS='WANDB_API_KEY {wandb} optional\nMY_KEY {other}'\n" in script
    assert host_secret("huggingface", "").variable == "HF_TOKEN"


@pytest.mark.parametrize("name", ["path", "ld-preload", "slipway-bundle", "https-proxy", "jax-platforms", "m-steps"])
def test_no_secret_takes_the_place_of_what_a_host_needs(name: str) -> None:
    variable = name.upper().replace("-", "_")
    assert problem(name) == (
        f"hosts would read it as {variable}, which they need for something else; give the secret another name"
    )


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    """`make lint` looks at the files themselves."""
    script = tmp_path / "startup-script"
    script.write_text(startup_script(HOST, BOOTSTRAP))
    done = subprocess.run([SHELLCHECK, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


# --- as a process ---


class Google(BaseHTTPRequestHandler):
    """Token, secrets, objects, guest attributes and Cloud Logging, as a host sees them."""

    objects: ClassVar[dict[str, str]] = {}  # of the artifact store, by key
    reports: ClassVar[list[dict[str, object]]] = []
    logging: ClassVar[list[int]] = []  # what entries:write answers, one call each; then 200
    written: ClassVar[list[dict[str, Any]]] = []
    metadata: ClassVar[dict[str, str]] = {
        "project/project-id": "p",
        "instance/zone": "projects/1/zones/us-east5-b",
        "instance/name": "t1v-n-1-w-0",
    }

    def do_GET(self) -> None:
        name = self.path.removeprefix("/computeMetadata/v1/")
        key = unquote(self.path).removeprefix(OBJECTS).removesuffix("?alt=media")
        if name == "instance/service-accounts/default/token":
            assert self.headers["Metadata-Flavor"] == "Google"
            self._answer({"access_token": "t0k3n", "expires_in": 300})
        elif name in self.metadata:
            self._send(200, self.metadata[name].encode())
        elif key in self.objects:
            assert self.headers["Authorization"] == "Bearer t0k3n"
            self._send(200, self.objects[key].encode())
        elif self.path == "/v1/projects/p/secrets/s/versions/latest:access":
            assert self.headers["Authorization"] == "Bearer t0k3n"
            self._answer({"name": "s", "payload": {"data": "aHVzaA==", "dataCrc32c": "1"}})
        elif self.path == "/v1/projects/p/secrets/others/versions/latest:access":
            self._send(403, b'{"error": {"code": 403, "status": "PERMISSION_DENIED"}}')
        else:
            self._send(404, b'{"error": {"code": 404, "status": "NOT_FOUND"}}')

    def do_PUT(self) -> None:
        assert self.path == "/computeMetadata/v1/instance/guest-attributes/slipway/status"
        self.reports.append(json.loads(self._body()))
        self._answer({})

    def do_POST(self) -> None:
        assert (self.path, self.headers["Authorization"]) == ("/v2/entries:write", "Bearer t0k3n")
        body = json.loads(self._body())
        code = self.logging.pop(0) if self.logging else 200
        if code == 200:
            self.written.append(body)
        self._send(code, b"{}")

    def log_message(self, format: str, *args: object) -> None:
        del format, args

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"]))

    def _answer(self, value: object) -> None:
        self._send(200, json.dumps(value, indent=1).encode())

    def _send(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> ThreadingHTTPServer:
    for said in (Google.objects, Google.reports, Google.logging, Google.written):
        said.clear()
    google = ThreadingHTTPServer(("127.0.0.1", 0), Google)
    Thread(target=google.serve_forever, daemon=True).start()
    return google


class BootedHost:
    """A directory for its files, and stand-ins for what only root of a real machine may do, which write down calls."""

    def __init__(self, directory: Path, server: ThreadingHTTPServer) -> None:
        self.home = directory / "home with a space"
        self.units = directory / "etc" / "systemd" / "system"
        self.huge_pages = directory / "huge pages"
        self._tools, self.calls = directory / "tools", directory / "calls"
        for folder in (self._tools, self.units):
            folder.mkdir(parents=True)
        self.huge_pages.write_text("madvise\n")
        for name in ("systemctl", "useradd", "chown"):
            self.tool(name, f'echo "{name} $*" >>"{self.calls}"')
        address = f"127.0.0.1:{server.server_port}"
        self.environ = {
            "PATH": f"{self._tools}:{os.environ['PATH']}",
            "SLIPWAY_HOME": str(self.home),
            "SLIPWAY_UNITS": str(self.units),
            "SLIPWAY_HUGE_PAGES": str(self.huge_pages),
            "SLIPWAY_LOGS_S": "1",
            "GCE_METADATA_HOST": address,
            "SLIPWAY_SECRETS_ENDPOINT": f"http://{address}",
            "SLIPWAY_STORAGE_ENDPOINT": f"http://{address}",
            "SLIPWAY_LOGGING_ENDPOINT": f"http://{address}",
            "no_proxy": "*",
        }

    def tool(self, name: str, text: str) -> None:
        (self._tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (self._tools / name).chmod(0o755)

    def boot(self, script: str) -> list[str]:
        """What it called."""
        self.calls.write_text("")
        done = self.run("-c", script)
        assert done.returncode == 0, done.stderr
        return self.calls.read_text().splitlines()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", *arguments]
        return subprocess.run(command, env=self.environ, capture_output=True, text=True, check=False, timeout=60)

    def program(self, name: str) -> str:
        return str(self.home / "programs" / name)

    def train(self) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        """Where bundle and environment stand already, with a Python that prints its environment; and the status."""
        bundle, python = self.home / "software/bundles" / BUNDLE, self.home / "software/env/w/bin/python"
        for folder in (bundle, python.parent):
            folder.mkdir(parents=True, exist_ok=True)
        (bundle / "MANIFEST").write_text("")
        (bundle / "wheelhouse").write_text("w\n")
        (self.home / "software/env/w/.complete").touch()
        python.write_text("#!/bin/sh\nenv\n")
        python.chmod(0o755)
        done = self.run(self.program("train.sh"))
        return done, json.loads((self.home / "host" / "status.json").read_text())


@pytest.fixture
def host(tmp_path: Path, server: ThreadingHTTPServer) -> BootedHost:
    return BootedHost(tmp_path, server)


def test_every_boot_runs_it_and_only_a_change_restarts_training(host: BootedHost) -> None:
    script = startup_script(HOST, BOOTSTRAP)
    services = "slipway-logs.service slipway-report.service slipway.service"
    first = host.boot(script)
    assert first[0] == f"useradd --system --home-dir {host.home}/host --shell /usr/sbin/nologin slipway"
    assert first[-1] == f"systemctl restart {services}"
    assert not any("enable" in call.split() for call in first), "a reboot begins with the bundle of today"
    assert host.boot(script)[-1] == f"systemctl start {services}"
    assert host.boot(startup_script(dataclasses.replace(HOST, bundle="f" * 16), BOOTSTRAP))[-1] == first[-1]
    assert Path(host.program("bootstrap.sh")).read_text() == BOOTSTRAP
    assert host.huge_pages.read_text() == "always\n"


def test_training_runs_as_an_account_of_its_own_and_what_root_runs_is_not_that_accounts(host: BootedHost) -> None:
    calls = host.boot(startup_script(HOST, BOOTSTRAP))
    unit = (host.units / "slipway.service").read_text()
    for line in (
        f'ExecStart=/bin/bash "{host.home}/programs/train.sh"',
        f'ExecStartPre=+/bin/bash "{host.home}/programs/devices.sh"',
        "User=slipway",
        "Restart=on-failure",
        "RestartPreventExitStatus=2 3",
    ):
        assert f"\n{line}\n" in unit
    given = [f"{host.home}/{name}" for name in ("host", "cache", "software")]
    assert [call for call in calls if call.startswith("chown")] == [f"chown -R slipway: {' '.join(given)}"]
    assert "SystemMaxUse=1G\n" in (host.units.parent / "journald@slipway.conf").read_text()


def test_whatever_is_in_the_path_of_a_home_its_services_find_it(host: BootedHost, tmp_path: Path) -> None:
    """systemd has a meaning for each of these characters: tests/unit/emulated_hosts/test_systemd_verify.py."""
    home = tmp_path / STRANGE
    host.environ["SLIPWAY_HOME"] = str(home)
    host.boot(startup_script(HOST, BOOTSTRAP))
    unit = parse((host.units / "slipway.service").read_text())
    environment = dict(unit.environment)
    assert environment == {"HOME": f"{home}/host"}
    programs = [command.arguments(environment) for command in (unit.main, *unit.before)]
    assert programs == [[f"{home}/programs/train.sh"], [f"{home}/programs/devices.sh"]]
    assert all(Path(each).is_file() for (each,) in programs)


def test_text_on_a_disk_is_mounted_by_its_label_at_each_boot_and_its_lack_stops_nothing(host: BootedHost) -> None:
    """Training then says that its text is not there."""
    script = startup_script(dataclasses.replace(HOST, data_disk="slipway-data"), BOOTSTRAP)
    host.tool("mountpoint", "false")
    host.tool("mount", f'echo "mount $*" >>"{host.calls}"')
    assert f"mount -o ro LABEL=slipway-data {host.home}/data-disk" in host.boot(script)
    host.tool("mount", "echo 'no such device' >&2; exit 32")
    assert host.boot(script)[-1].startswith("systemctl start ")
    host.tool("mountpoint", "true")
    host.tool("mount", f'echo "mount $*" >>"{host.calls}"')
    assert not any(call.startswith("mount ") for call in host.boot(script)), "it is there"
    assert DATA_DISK == "/var/lib/slipway/data-disk" and "DATA_DISK=" not in startup_script(HOST, BOOTSTRAP)


def test_a_mount_of_a_bucket_is_a_service_of_roots_that_is_started_before_the_training(host: BootedHost) -> None:
    script = startup_script(dataclasses.replace(HOST, data_mount=MOUNT), BOOTSTRAP)
    services = "slipway-data.service slipway-logs.service slipway-report.service slipway.service"
    assert host.boot(script)[-1] == f"systemctl restart {services}"
    assert host.boot(script)[-1] == f"systemctl start {services}"
    unit = (host.units / "slipway-data.service").read_text()
    for line in (
        f'ExecStart=/bin/bash "{host.home}/programs/mount.sh"',
        "User=root",
        "Restart=always",
        "RestartSec=15",
    ):
        assert f"\n{line}\n" in unit
    variables = (host.home / "programs" / "variables.sh").read_text()
    assert f"\nexport SLIPWAY_DATA_MOUNT=gs://data/prepared\nexport SLIPWAY_MOUNT_PROGRAM={'a' * 64}\n" in variables
    without = host.boot(startup_script(HOST, BOOTSTRAP))
    assert "systemctl stop slipway-data.service" in without, "a stack may copy its text again"
    assert "slipway-data" not in without[-1]
    assert '/mount.sh" <<' in script and '/mount.sh" <<' not in startup_script(HOST, BOOTSTRAP)
    assert DATA_MOUNT == "/var/lib/slipway/data-mount"


def test_training_finds_its_variables_and_secrets(host: BootedHost) -> None:
    host.boot(startup_script(HOST, BOOTSTRAP))
    done, _ = host.train()
    assert done.returncode == 0, done.stderr
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert variables["SLIPWAY_ARTIFACTS"] == "gs://artifacts"
    assert variables["SLIPWAY_BUNDLE"] == BUNDLE
    assert variables["SLIPWAY_ROOT"] == f"{host.home}/software"
    assert variables["WANDB_API_KEY"] == "hush"
    assert not any("hush" in path.read_text() for path in host.home.rglob("*") if path.is_file()), "never written down"


WANTED = "wanted/demo/2bd806-1"
ASKING = asking(startup_script(dataclasses.replace(HOST, bundle="f" * 16, secrets=()), BOOTSTRAP), WANTED)


def test_a_host_that_asks_for_its_bundle_learns_it_once_a_boot(host: BootedHost) -> None:
    """Its request's metadata names the one of before, and what starts again in the middle of a run keeps its own."""
    host.boot(ASKING)
    Google.objects[WANTED] = f"{BUNDLE}\n"
    for _ in range(2):
        done, _ = host.train()
        assert f"SLIPWAY_BUNDLE={BUNDLE}" in done.stdout.splitlines(), done.stderr
        Google.objects[WANTED] = f"{'0' * 16}\n"
    host.boot(ASKING)
    done, status = host.train()
    assert (done.returncode, done.stdout) == (1, "")
    assert status["reason"].startswith("fetching from gs://artifacts: 404 for bundle.tar"), "that one is not there"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("", "fetching from gs://artifacts: 404 for wanted-bundle"),
        ("../x\n", f"{WANTED} of gs://artifacts is '../x', which is no bundle; run pulumi up"),
    ],
    ids=["nothing", "no bundle"],
)
def test_a_host_that_does_not_learn_its_bundle_runs_none_and_asks_again(
    host: BootedHost, said: str, reason: str
) -> None:
    host.boot(ASKING)
    if said:
        Google.objects[WANTED] = said
    done, status = host.train()
    assert (done.returncode, done.stdout, status["exit_code"]) == (1, "", 1)
    assert status["reason"].startswith(reason)
    Google.objects[WANTED] = f"{BUNDLE}\n"
    assert host.train()[0].returncode == 0


def test_a_report_names_the_bundle_that_was_learned(host: BootedHost) -> None:
    host.boot(ASKING)
    learned = f'printf "{BUNDLE}\\n" >"{host.home}/host/chosen-bundle"'
    status = f"""echo '{{"phase": "training"}}' >"{host.home}/host/status.json" """
    host.tool("sleep", f'[ ! -e "{host.home}/host/status.json" ] || kill $PPID; {learned}; {status}')
    host.run(host.program("report.sh"))
    assert [report["bundle"] for report in Google.reports] == ["", BUNDLE]


@pytest.mark.parametrize(
    ("secret", "code", "reason"),
    [
        (
            HostSecret("KEY", "projects/p/secrets/none/versions/latest"),
            1,
            "secret projects/p/secrets/none/versions/latest has no value; "
            "add one: gcloud secrets versions add none --project=p --data-file=-",
        ),
        (
            HostSecret("KEY", "projects/p/secrets/others/versions/latest"),
            1,
            "secret projects/p/secrets/others/versions/latest may not be read by this host's account; "
            "it needs roles/secretmanager.secretAccessor on it",
        ),
        (
            HostSecret("PATH", "projects/p/secrets/s/versions/latest"),
            2,
            "secret projects/p/secrets/s/versions/latest would replace PATH of this host; give it another name",
        ),
    ],
    ids=["no value", "not allowed", "a variable that is there"],
)
def test_a_secret_that_cannot_be_read_is_the_hosts_status(
    host: BootedHost, secret: HostSecret, code: int, reason: str
) -> None:
    host.boot(startup_script(dataclasses.replace(HOST, secrets=(secret,)), BOOTSTRAP))
    done, status = host.train()
    assert (done.returncode, done.stdout) == (code, "")
    assert (status["phase"], status["exit_code"], status["reason"]) == ("failed", code, reason)


def test_an_optional_secret_without_a_value_is_left_out_and_said(host: BootedHost) -> None:
    lost = dataclasses.replace(WANDB, version="projects/p/secrets/none/versions/latest")
    host.boot(startup_script(dataclasses.replace(HOST, secrets=(lost,)), BOOTSTRAP))
    done, _ = host.train()
    assert done.returncode == 0, done.stderr
    said = "bootstrap: secret projects/p/secrets/none/versions/latest has no value and is left out"
    assert done.stdout.splitlines()[0] == said
    assert "WANDB_API_KEY" not in done.stdout.replace(f"WANDB_API_KEY {lost.version}", "")


def test_each_phase_and_each_standstill_is_reported_once(host: BootedHost) -> None:
    """Between two looks the training writes its next status, and after the last one the service is ended."""
    host.boot(startup_script(HOST, BOOTSTRAP))
    training = {"phase": "training", "exit_code": None, "reason": None}
    still, goes_on = training | {"still_since": 1.5}, training | {"still_since": None}
    for number, status in enumerate([training, training, still, still, goes_on, training | {"phase": "finished"}]):
        (host.home / f"status-{number}").write_text(json.dumps(status) + "\n")
    next_status = f'cd "{host.home}"; set -- status-*; mv "$1" host/status.json || kill $PPID'
    host.tool("sleep", next_status)
    host.run(host.program("report.sh"))
    assert Google.reports[0] == {"bundle": BUNDLE, "status": {"phase": "booting"}}
    said = [report["status"] for report in Google.reports[1:]]
    assert said == [training, still, goes_on, training | {"phase": "finished"}]


def journal_line(number: int, message: str) -> str:
    """As `journalctl --output=json` of systemd 249 writes one."""
    return json.dumps(
        {
            "__CURSOR": f"s=2eaf;i={number:x};b=46d6;m=1b2;t=6098;x=c0de",
            "__REALTIME_TIMESTAMP": f"17956516690000{number:02}",
            "PRIORITY": "6",
            "MESSAGE": message,
        }
    )


def test_the_log_reaches_cloud_logging_in_order_each_line_once(host: BootedHost) -> None:
    """Whatever is in a line, also where Google is away for a moment, and from where it was after a restart."""
    lines = ['{"step": 1} "MESSAGE" \\ \t end', "slipway: 2 hosts, all take part", "näher"]
    host.boot(startup_script(HOST, BOOTSTRAP))
    journal = host.home / "journal"
    journal.write_text("".join(journal_line(number, line) + "\n" for number, line in enumerate(lines)))
    host.tool("journalctl", f'echo "$*" >"{host.home}/asked"; cat "{journal}"')
    Google.logging[:] = [503]
    ended = host.run(host.program("logs.sh"))
    assert "logs: Cloud Logging answers 503: {}" in ended.stderr
    (batch,) = Google.written
    assert batch["logName"] == "projects/p/logs/slipway"
    labels = {"location": "us-east5-b", "namespace": "demo", "node_id": "t1v-n-1-w-0"}
    assert batch["resource"] == {"type": "generic_node", "labels": labels}
    assert [entry["jsonPayload"]["message"] for entry in batch["entries"]] == lines
    assert [entry["insertId"] for entry in batch["entries"]] == ["2eaf-0", "2eaf-1", "2eaf-2"]
    assert batch["entries"][2]["timestamp"] == "2026-11-26T00:07:49.000002Z"
    host.run(host.program("logs.sh"))
    assert "--after-cursor=s=2eaf;i=2;" in (host.home / "asked").read_text()


def test_a_log_that_may_not_be_written_says_which_role_is_missing(host: BootedHost) -> None:
    host.boot(startup_script(HOST, BOOTSTRAP))
    host.tool("journalctl", f"echo '{journal_line(0, 'a line')}'")
    Google.logging[:] = [403]
    ended = host.run(host.program("logs.sh"))
    assert "logs: this host's account needs roles/logging.logWriter on project p\n" in ended.stderr
    assert len(Google.written) == 1, "it is sent once the role is there"
