"""tools/engine.sh: which engine it takes, and what it refuses. A local HTTP server stands for the release site."""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.engine.project import ENGINE

ROOT = Path(__file__).resolve().parents[2]
# All that the script may need, so that neither a pulumi nor a Go of this machine is found.
TOOLS = (
    *("awk", "bash", "cat", "cp", "curl", "cut", "dirname", "env", "flock", "grep", "gzip", "head", "install", "mkdir"),
    *("mktemp", "mv", "nproc", "readlink", "rm", "sha256sum", "sleep", "sort", "tail", "tar", "timeout", "tr", "uname"),
)
_found = re.search(
    r"^require github.com/pulumi/pulumi/pkg/v3 (v\S+)", (ROOT / "tools/engine/cli/go.mod").read_text(), re.M
)
assert _found is not None
VERSION = _found[1]
ARCHITECTURE = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
TARBALL = f"pulumi-{VERSION}-linux-{ARCHITECTURE}.tar.gz"
CHECKSUMS = f"pulumi-{VERSION[1:]}-checksums.txt"
PARTS = ("pulumi", "pulumi-language-python", "pulumi-language-python-exec")


@dataclass
class ReleaseSite:
    files: dict[str, bytes]
    asked: list[str] = field(default_factory=list[str])
    url: str = ""


@pytest.fixture
def site() -> Iterator[ReleaseSite]:
    tarball = release_tarball()
    checksums = f"{hashlib.sha256(tarball).hexdigest()}  {TARBALL}\n{'0' * 64}  another.tar.gz\n"
    released = ReleaseSite({TARBALL: tarball, CHECKSUMS: checksums.encode()})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.removeprefix("/")
            released.asked.append(name)
            self.send_response(200 if name in released.files else 404)
            self.end_headers()
            self.wfile.write(released.files.get(name, b""))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        released.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield released
        server.shutdown()


def release_tarball() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in (*PARTS, "pulumi-language-nodejs"):
            script = f"#!/bin/sh\necho {VERSION}\n".encode()
            entry = tarfile.TarInfo(f"pulumi/{name}")
            entry.size, entry.mode = len(script), 0o755
            archive.addfile(entry, io.BytesIO(script))
    return buffer.getvalue()


@dataclass(frozen=True)
class NewMachine:
    """A clone whose path has a space, a cache, and a PATH with nothing but what a bare system has."""

    folder: Path
    site: ReleaseSite

    @property
    def clone(self) -> Path:
        return self.folder / "a clone"

    @property
    def engines(self) -> Path:
        return self.folder / "the cache" / "engine"

    def install(self, name: str, says: str) -> Path:
        path = self.folder / "opt" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)
        return path

    def start(self) -> subprocess.Popen[str]:
        path = [self.clone / ".venv/bin", self.folder / "opt", self.folder / "bin"]
        return subprocess.Popen(
            [self.clone / "tools" / "engine.sh"],
            env={
                "PATH": os.pathsep.join(map(str, path)),
                "HOME": str(self.folder),
                "SLIPWAY_CACHE": str(self.folder / "the cache"),
                "SLIPWAY_ENGINE_URL": self.site.url,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self) -> subprocess.CompletedProcess[str]:
        process = self.start()
        out, err = process.communicate(timeout=900)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def recorded(self) -> str:
        return (self.clone / ".venv" / "engine-path").read_text()


@pytest.fixture
def machine(tmp_path: Path, site: ReleaseSite) -> NewMachine:
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None, f"{tool} is missing on this machine"
        (bare / tool).symlink_to(found)
    tools = tmp_path / "a clone" / "tools"
    (tmp_path / "a clone" / ".venv" / "bin").mkdir(parents=True)
    shutil.copytree(ROOT / "tools" / "engine", tools / "engine")
    for script in ("building.sh", "engine.sh"):
        shutil.copy(ROOT / "tools" / script, tools)
    return NewMachine(tmp_path, site)


def test_release_that_matches_its_checksum_is_taken_once(machine: NewMachine) -> None:
    first = machine.run()
    assert first.returncode == 0, first.stderr
    engine = Path(first.stdout.strip())
    assert sorted(path.name for path in engine.iterdir()) == sorted(PARTS)
    assert machine.recorded() == first.stdout
    second = machine.run()
    assert (second.returncode, second.stdout, second.stderr) == (0, first.stdout, "")
    assert machine.site.asked == [CHECKSUMS, TARBALL]


@pytest.mark.parametrize("folder", ["cli", "language-python"])
def test_engine_of_another_version_of_what_is_left_out_is_another_engine(machine: NewMachine, folder: str) -> None:
    first = machine.run()
    one = next((machine.clone / "tools" / "engine" / folder / "left-out").rglob("left_out.go"))
    one.write_text(f"{one.read_text()}// changed\n")
    second = machine.run()
    assert (first.returncode, second.returncode) == (0, 0), second.stderr
    assert first.stdout != second.stdout


def test_two_setups_at_a_time_download_once(machine: NewMachine) -> None:
    processes = [machine.start(), machine.start()]
    outputs = [process.communicate(timeout=900) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert machine.site.asked == [CHECKSUMS, TARBALL]
    assert outputs[0][0] == outputs[1][0]


def test_release_that_differs_from_its_checksum_is_refused(machine: NewMachine) -> None:
    machine.site.files[TARBALL] += b"tampered"
    refused = machine.run()
    assert refused.returncode == 1
    assert f"error: refusing {machine.site.url}/{TARBALL}: its SHA-256 is " in refused.stderr
    assert list(machine.engines.iterdir()) == [machine.engines / ".lock"]
    assert not (machine.clone / ".venv" / "engine-path").exists()


@pytest.mark.parametrize("gone", [CHECKSUMS, TARBALL])
def test_without_a_verified_release_go_and_uv_the_one_line_says_what_to_install(machine: NewMachine, gone: str) -> None:
    del machine.site.files[gone]
    stuck = machine.run()
    assert stuck.returncode == 1
    assert re.fullmatch(
        r"error: Go >= [\d.]+ is missing, and so is uv to fetch it with; install Go, or install pulumi >= 3\.200 .*",
        stuck.stderr.splitlines()[-1],
    )
    assert list(machine.engines.iterdir()) == [machine.engines / ".lock"]


def test_page_of_a_portal_instead_of_checksums_is_no_release(machine: NewMachine) -> None:
    machine.site.files[CHECKSUMS] = b"<html>please log in</html>"
    assert f"publishes no checksum for {TARBALL}; building the engine from source" in machine.run().stderr
    assert machine.site.asked == [CHECKSUMS]


def test_installed_engine_comes_first(machine: NewMachine) -> None:
    installed = machine.install("pulumi", "v3.260.1")
    machine.install("pulumi-language-python", "")
    taken = machine.run()
    assert (taken.returncode, taken.stdout, taken.stderr) == (0, f"{installed.parent}\n", "")
    assert machine.site.asked == []


def test_installed_engine_that_is_too_old_is_passed_over_aloud(machine: NewMachine) -> None:
    installed = machine.install("pulumi", "v3.99.0")
    taken = machine.run()
    assert taken.returncode == 0
    assert f"note: {installed} is 3.99.0, this project needs >= 3.200; not used" in taken.stderr
    assert taken.stdout.startswith(str(machine.engines))


def test_wrapper_of_an_activated_environment_is_not_an_engine(machine: NewMachine) -> None:
    wrapper = machine.clone / ".venv" / "bin" / "pulumi"
    wrapper.write_text("#!/bin/sh\n# from infra.engine.wrapper import main\necho v3.260.1\n")
    wrapper.chmod(0o755)
    machine.install("pulumi-language-python", "")
    assert machine.run().stdout.startswith(str(machine.engines))


def test_engine_that_was_built_here_says_what_it_lacks_and_contains_nothing_of_it(tmp_path: Path) -> None:
    login = [ENGINE / "pulumi", "login", "s3://state?region=us-east-1&endpoint=http://127.0.0.1:1"]
    account = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
    own = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PULUMI_SKIP_UPDATE_CHECK": "true"}
    refused = subprocess.run(login, env=account | own, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "s3://state" in refused.stderr
    program = (ENGINE / "pulumi").read_bytes()
    if b"slipway.dev/engine/cli/leftout" in program:  # else it is an official one, which has found no such bucket
        assert "s3:// is left out of this pulumi, which Slipway has built from source; the official" in refused.stderr
        heavy = rb"dep\t(github\.com/(Azure|AzureAD|pb33f|alecthomas|hashicorp/vault|envoyproxy|lib/pq|aws)/?[^\t]*)"
        assert {name for name, *_ in re.findall(heavy, program)} <= {b"github.com/aws/aws-sdk-go-v2/service/s3"}
