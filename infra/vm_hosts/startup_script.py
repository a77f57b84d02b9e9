"""The startup script of hosts in VMs: settings in, shell text out. Pure.

Owns the one text that metadata holds: variables, the shell files beside this one with training/bootstrap.sh, and the
call of startup.sh, which makes them services. Refuses to own what these do, who the host is (training/hosts.py asks the
metadata server) and secrets' values: a host reads those itself, by name. Not run on real hardware.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from infra.host_secrets import HostSecret

METADATA_LIMIT = 256 * 1024  # bytes of one metadata value
HEADER = "# {stack}: {slices} slices x {hosts} hosts x {chips} chips"

DATA_DISK = "/var/lib/slipway/data-disk"  # where startup.sh mounts text that lies on a disk
DATA_MOUNT = "/var/lib/slipway/data-mount"  # where mount.sh mounts text that lies in a bucket

_FILES = ("startup.sh", "train.sh", "devices.sh", "report.sh", "logs.sh")
_MOUNT_FILE = "mount.sh"
_MARK = "SLIPWAY_END_OF_FILE"


class StartupScriptError(ValueError):
    """No host could be given this script; the message says why."""


@dataclass(frozen=True)
class DataMount:
    """source: what hosts mount at DATA_MOUNT, gs://bucket[/folder]. program: SHA-256 of the gcsfuse that does it."""

    source: str
    program: str


@dataclass(frozen=True)
class HostScript:
    """What differs between stacks; counts are per slice."""

    stack: str
    slices: int
    hosts_per_slice: int
    chips_per_host: int
    artifacts: str  # gs://bucket
    bundle: str
    secrets: tuple[HostSecret, ...] = ()
    data_disk: str = ""  # the label of a file system that hosts mount at DATA_DISK
    data_mount: DataMount | None = None


def startup_script(host: HostScript, bootstrap: str) -> str:
    """The script, with the text of training/bootstrap.sh in it. Raises StartupScriptError above the metadata limit."""
    names = (*_FILES, *((_MOUNT_FILE,) if host.data_mount else ()))
    files = {name: Path(__file__).with_name(name).read_text() for name in names} | {"bootstrap.sh": bootstrap}
    size = HEADER.format(stack=host.stack, slices=host.slices, hosts=host.hosts_per_slice, chips=host.chips_per_host)
    secrets = [secret.line for secret in host.secrets]
    text = "\n".join(
        (
            "#!/usr/bin/env bash",
            size,
            "# Written by infra/vm_hosts/startup_script.py; every boot runs it again.",
            "set -euo pipefail",
            f"export SLIPWAY_STACK={shlex.quote(host.stack)}",
            f"export SLIPWAY_ARTIFACTS={shlex.quote(host.artifacts)}",
            f"export SLIPWAY_BUNDLE={shlex.quote(host.bundle)}",
            "export SLIPWAY_WANTED=''",  # `asking` says where else the bundle is said
            f"export SLIPWAY_SECRETS={shlex.quote('\n'.join(secrets))}",
            *([f"export SLIPWAY_DATA_DISK={shlex.quote(host.data_disk)}"] if host.data_disk else []),
            *(_mounting(host.data_mount) if host.data_mount else []),
            "SLIPWAY_FILES=$(mktemp -d)",
            "export SLIPWAY_FILES",
            *(_written(name, content) for name, content in files.items()),
            'exec bash "$SLIPWAY_FILES/startup.sh"\n',
        )
    )
    if (size_bytes := len(text.encode())) > METADATA_LIMIT:
        raise StartupScriptError(
            f"the startup script has {size_bytes:,} bytes, metadata takes {METADATA_LIMIT:,}; "
            "shorten training/bootstrap.sh"
        )
    return text


def _mounting(mount: DataMount) -> list[str]:
    source, program = shlex.quote(mount.source), shlex.quote(mount.program)
    return [f"export SLIPWAY_DATA_MOUNT={source}", f"export SLIPWAY_MOUNT_PROGRAM={program}"]


def _written(name: str, content: str) -> str:
    if _MARK in content.splitlines():
        raise StartupScriptError(f"{name} has a line that ends its copy ({_MARK}); change it")
    return f"cat >\"$SLIPWAY_FILES/{name}\" <<'{_MARK}'\n{content.rstrip(chr(10))}\n{_MARK}"


def bundle_of(script: str) -> str:
    """The bundle that this script names; empty where it is no script of ours."""
    return _value_of("BUNDLE", script)


def wanted_of(script: str) -> tuple[str, str]:
    """The store and the key in it where a host with this script learns its bundle; no key where the script names it."""
    return _value_of("ARTIFACTS", script), _value_of("WANTED", script)


def asking(script: str, key: str) -> str:
    """The script of hosts that learn their bundle when they boot, by the object `key` of their store."""
    return _with_value("WANTED", key, script)


def without_bundle(script: str) -> str:
    """What of a script cannot be changed by what its hosts learn when they boot."""
    return _with_value("BUNDLE", "", script)


def _value_of(name: str, script: str) -> str:
    line = re.search(rf"^export SLIPWAY_{name}=(.+)$", script, re.MULTILINE)
    return "".join(shlex.split(line[1])) if line else ""


def _with_value(name: str, value: str, script: str) -> str:
    line = f"export SLIPWAY_{name}={shlex.quote(value)}"
    return re.sub(rf"^export SLIPWAY_{name}=.*$", lambda _: line, script, count=1, flags=re.MULTILINE)
