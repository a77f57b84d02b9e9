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

_FILES = ("startup.sh", "train.sh", "devices.sh", "report.sh", "logs.sh")
_MARK = "SLIPWAY_END_OF_FILE"


class StartupScriptError(ValueError):
    """No host could be given this script; the message says why."""


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


def startup_script(host: HostScript, bootstrap: str) -> str:
    """The script, with the text of training/bootstrap.sh in it. Raises StartupScriptError above the metadata limit."""
    files = {name: Path(__file__).with_name(name).read_text() for name in _FILES} | {"bootstrap.sh": bootstrap}
    size = HEADER.format(stack=host.stack, slices=host.slices, hosts=host.hosts_per_slice, chips=host.chips_per_host)
    secrets = [f"{secret.variable} {secret.version}{' optional' * secret.optional}" for secret in host.secrets]
    text = "\n".join(
        (
            "#!/usr/bin/env bash",
            size,
            "# Written by infra/vm_hosts/startup_script.py; every boot runs it again.",
            "set -euo pipefail",
            f"export SLIPWAY_STACK={shlex.quote(host.stack)}",
            f"export SLIPWAY_ARTIFACTS={shlex.quote(host.artifacts)}",
            f"export SLIPWAY_BUNDLE={shlex.quote(host.bundle)}",
            f"export SLIPWAY_SECRETS={shlex.quote('\n'.join(secrets))}",
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


def _written(name: str, content: str) -> str:
    if _MARK in content.splitlines():
        raise StartupScriptError(f"{name} has a line that ends its copy ({_MARK}); change it")
    return f"cat >\"$SLIPWAY_FILES/{name}\" <<'{_MARK}'\n{content.rstrip(chr(10))}\n{_MARK}"


def bundle_of(script: str) -> str:
    """The bundle that a host with this script installs; empty where it is no script of ours."""
    line = re.search(r"^export SLIPWAY_BUNDLE=(.+)$", script, re.MULTILINE)
    return "".join(shlex.split(line[1])) if line else ""
