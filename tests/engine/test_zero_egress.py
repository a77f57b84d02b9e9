"""Hosts need no way out and no Python: bootstrap and training in a network namespace without one, with every attempt on
record, on a root file system like that of a TPU VM's image (tests/engine/bare_root.py).

In the namespace the default route leads into a veth pair that nobody answers, and name resolution to an address behind
it. Whatever asks for an address elsewhere, in Python or in C++, shows up as a neighbour the kernel looked for.
"""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest

from infra.artifacts.store import LocalStore
from infra.host_software import wheelhouses
from infra.host_software.bundle import BundleContents, collect, put
from infra.host_software.installation import COMMAND, Installation
from infra.host_software.wheels.locks import STABLE, lock_path
from infra.host_software.wheels.python_made_here import archive_name, make_archive
from infra.paths import ARTIFACTS, PYTHONS, ROOT, TRAINING
from tests.engine.bare_root import ANY_GLIBC, BareRoot
from tests.engine.clone import TINY
from tests.training.cluster import COMPILED
from training.data.identity import read_manifest
from training.host_status import Phase, read_status
from training.run_spec import DataSpec, RunSpec

STEPS = 10
VOCABULARY = 512
# Every program below runs here. Addresses of documentation (RFC 5737); nothing of the machine is reachable.
NAMESPACE = """
ip link set lo up
ip link add out type veth peer name nobody
for device in out nobody; do
  echo 1 >/proc/sys/net/ipv6/conf/$device/disable_ipv6
  ip link set $device up
done
ip address add 192.0.2.1/24 dev out
ip route add default dev out
echo "$NAMESERVER" >"$WORK/resolv.conf"
mount --bind "$WORK/resolv.conf" /etc/resolv.conf
"""
NAMESERVER = "nameserver 198.51.100.53"
ATTEMPTS = "ip neighbour show dev out | cut -d ' ' -f 1"


def in_namespace(script: str, work: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    kept = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    return subprocess.run(
        ["unshare", "-rnm", "bash", "-euo", "pipefail", "-c", NAMESPACE + script],
        env=kept | environment | {"WORK": str(work), "NAMESERVER": NAMESERVER},
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_namespace_records_every_attempt(tmp_path: Path) -> None:
    """The instrument itself: an address asked for directly and one by way of a name are both seen."""
    script = f"""
        python3 - <<'END'
import socket
for address in ("203.0.113.7", "example.com"):
    try:
        socket.create_connection((address, 443), timeout=0.2)
    except OSError:
        pass
END
        {ATTEMPTS}
    """
    done = in_namespace(script, tmp_path, {})
    assert set(done.stdout.split()) == {"203.0.113.7", "198.51.100.53"}, done.stderr


@pytest.mark.sample(0)  # the hosts of test_booted_hosts.py ask for nothing either, and this installs 300 MB once more
def test_zero_egress_of_bootstrap_and_training(tmp_path: Path) -> None:
    """A wheelhouse and a bundle in a directory, a host with nothing installed, real text, ten steps: no attempt."""
    packed = PYTHONS / archive_name()  # as the emulator's hosts have it
    archive = packed if packed.exists() else make_archive(tmp_path / "python", ANY_GLIBC)
    wheels = wheelhouses.inputs_of("cpu", STABLE, None, str(archive))
    assert wheels.python
    wheelhouses.ensure_built(wheels)
    spec = run_spec(tmp_path, prepared(tmp_path))
    bundle = collect(
        TRAINING, BundleContents(spec.to_yaml(), wheels.id, lock_path("cpu", STABLE), python=wheels.python.sum_line)
    )
    put(bundle, LocalStore(ARTIFACTS))
    host = tmp_path / "host"
    environment = Installation(str(ARTIFACTS), bundle.hash, str(tmp_path / "installed")).variables | {
        "SLIPWAY_HOST_DIR": str(host),
        "SLIPWAY_HOST_INDEX": "0",
        "SLIPWAY_HOST_COUNT": "1",
        "SLIPWAY_COORDINATOR": "127.0.0.1:29123",
        "SLIPWAY_CACHE_DIR": str(COMPILED),
    }
    root = BareRoot(tmp_path / "image" / "root")
    (root.directory / "etc/resolv.conf").write_text(f"{NAMESERVER}\n")
    COMPILED.mkdir(parents=True, exist_ok=True)
    binds = (tmp_path, ARTIFACTS, COMPILED, TRAINING)
    bootstrap = root.entering(*COMMAND, binds=binds, **environment)
    done = in_namespace(f"{bootstrap} >$WORK/log 2>&1\n{ATTEMPTS}", tmp_path, {})
    assert done.returncode == 0, (tmp_path / "log").read_text()[-3000:] + done.stderr
    status = read_status(host)
    assert status is not None and (status.phase, status.step) == (Phase.FINISHED, STEPS)
    assert done.stdout == "", f"somebody asked for {done.stdout}"
    (maxtext,) = (tmp_path / "installed" / "env").glob("*/lib/python3.12/site-packages/maxtext-*.dist-info")
    assert maxtext.name.startswith("maxtext-0.2.5+slipway."), "with our patches"


def prepared(tmp_path: Path) -> Path:
    text = tmp_path / "text"
    text.mkdir()
    for number in range(40):
        source = (ROOT / "training" / "launch.py").read_text()
        (text / f"{number}.txt").write_text(f"{number} " + source[number * 100 :])
    environment = wheelhouses.environment()
    options = ["--vocab-size", str(VOCABULARY), "--heldout-fraction", "0.2", "--out", str(tmp_path / "data")]
    done = subprocess.run(
        [environment.python, "-P", "-m", "training.data.prepare", str(text), *options],
        env=os.environ | {"PYTHONPATH": environment.sources},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return tmp_path / "data"


def run_spec(tmp_path: Path, data: Path) -> RunSpec:
    return RunSpec(
        stack="egress",
        run_name="egress",
        platform="cpu",
        slices=1,
        hosts_per_slice=1,
        devices_per_host=2,
        steps=STEPS,
        output_directory=str(tmp_path / "runs"),
        data=DataSpec(str(data), read_manifest(data).content, max_epochs=50),
        maxtext=TINY
        | {
            "attention": "dot_product",
            "dtype": "float32",
            "per_device_batch_size": 1.0,
            "learning_rate_schedule_steps": STEPS,
            "checkpoint_period": 5,
            "eval_interval": 5,
            "vocab_size": VOCABULARY,
            "ici_fsdp_parallelism": 2,
        },
    )


# What opens a connection in training/, and to whom. A module that is not here may not import a network module.
CONNECTS = {
    "bucket_reader.py": "the bucket that the run spec names for the data, and the metadata server for its token",
    "hosts.py": "the metadata server",
    "launch.py": "tries whether the coordinator's port is free on this host",
    "notice.py": "the metadata server, on Google's machines or where one is named",
    "s3_objects.py": "the buckets of s3:// that run spec and store name, and who gives a pod credentials for them",
    "peers.py": "host 0's supervisor, at the port after the coordinator's",
}
NETWORK_MODULES = {
    "socket",
    "ssl",
    "http",
    "urllib",
    "requests",
    "httpx",
    "aiohttp",
    "google",
    "gcsfs",
    "fsspec",
    "boto3",
}


@pytest.mark.parametrize("path", sorted(TRAINING.rglob("*.py")), ids=lambda path: str(path.relative_to(TRAINING)))
def test_only_listed_modules_can_open_a_connection(path: Path) -> None:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
    if imported & NETWORK_MODULES:
        assert path.relative_to(TRAINING).as_posix() in CONNECTS, f"{path.name} imports {imported & NETWORK_MODULES}"


def test_bootstrap_asks_only_the_store_and_the_metadata_server() -> None:
    """Every curl of bootstrap.sh names one of the two, or Secret Manager; uv is never allowed an index or a network."""
    lines = [line for line in (TRAINING / "bootstrap.sh").read_text().splitlines() if not line.lstrip().startswith("#")]
    text = "\n".join(lines).replace("add one: gcloud secrets versions add", "")  # what a person does
    assert text.count("http://") == 1 and "http://${GCE_METADATA_HOST:-metadata.google.internal}/" in text
    for name in ("SLIPWAY_STORAGE_ENDPOINT:-https://storage", "SLIPWAY_SECRETS_ENDPOINT:-https://secretmanager"):
        assert text.count(f"${{{name}.googleapis.com}}") == 1
    assert text.count("https://") == 2
    assert (text.count("curl -fsS"), text.count("curl -sS")) == (2, 1)
    for command in ("wget", "pip3", "apt", "git", "gcloud", "gsutil"):
        assert f"{command} " not in text, command
    assert text.count("pip install") == text.count("--no-index") == text.count("--offline") == 1
