"""The startup script of hosts in VMs: settings in, shell text out. Pure.

Owns what a host does at every boot before training/bootstrap.sh takes over: it writes bootstrap.sh and two systemd
services (one trains, one reports readiness as a guest attribute) and starts them. Refuses to own what bootstrap does,
who the host is (training/hosts.py asks the metadata server) and secrets' values: a host reads those itself, by name.
Not run on real hardware.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from string import Template

from infra.targets.phases import BOOTING
from infra.vm_hosts.guest_report import ATTRIBUTE

METADATA_LIMIT = 256 * 1024  # bytes of one metadata value
HEADER = "# {stack}: {slices} slices x {hosts} hosts x {chips} chips"

# Variables that the known secrets are read as; any other is its own name in capitals.
_SECRET_VARIABLES = {"wandb": "WANDB_API_KEY", "huggingface": "HF_TOKEN"}


class StartupScriptError(ValueError):
    """No host could be given this script; the message says why."""


@dataclass(frozen=True)
class HostScript:
    """What differs between stacks. `secrets` are pairs of name and Secret Manager version; counts are per slice."""

    stack: str
    slices: int
    hosts_per_slice: int
    chips_per_host: int
    artifacts: str  # gs://bucket
    bundle: str
    secrets: tuple[tuple[str, str], ...] = ()


def startup_script(host: HostScript, bootstrap: str) -> str:
    """The script, with the text of training/bootstrap.sh in it. Raises StartupScriptError above the metadata limit."""
    if any(line in _MARKS for line in bootstrap.splitlines()):
        raise StartupScriptError(
            f"training/bootstrap.sh has a line that ends its copy ({', '.join(_MARKS)}); change it"
        )
    text = _SCRIPT.substitute(
        header=HEADER.format(
            stack=host.stack, slices=host.slices, hosts=host.hosts_per_slice, chips=host.chips_per_host
        ),
        artifacts=shlex.quote(host.artifacts),
        bundle=shlex.quote(host.bundle),
        secrets="\n".join(f"{secret_variable(name)} {path}" for name, path in host.secrets) or "# none",
        bootstrap=bootstrap.rstrip("\n"),
        guest_attribute=ATTRIBUTE,
        booting=BOOTING,
    )
    size = len(text.encode())
    if size > METADATA_LIMIT:
        raise StartupScriptError(
            f"the startup script has {size:,} bytes, metadata takes {METADATA_LIMIT:,}; shorten training/bootstrap.sh"
        )
    return text


def bundle_of(script: str) -> str:
    """The bundle that a host with this script installs; empty where it is no script of ours."""
    line = re.search(r"^export SLIPWAY_BUNDLE=(.+)$", script, re.MULTILINE)
    return "".join(shlex.split(line[1])) if line else ""


def secret_variable(name: str) -> str:
    """The environment variable in which training finds a secret."""
    return _SECRET_VARIABLES.get(name, name.upper().replace("-", "_"))


_MARKS = ("SLIPWAY_BOOTSTRAP", "SLIPWAY_SECRETS", "SLIPWAY_RUN", "SLIPWAY_REPORT", "SLIPWAY_UNIT", "SLIPWAY_VARIABLES")

# Its second line names where this module stood in 0.1.0: another text would change the metadata of every running host.
_SCRIPT = Template(r"""#!/usr/bin/env bash
# Written by infra/startup_script.py; every boot runs it again, and a change on the host is undone.
$header
set -euo pipefail

home=$${SLIPWAY_HOME:-/var/lib/slipway}
units=$${SLIPWAY_UNITS:-/etc/systemd/system}
mkdir -p "$$home/host"
changed=

put() { # file; takes its text from stdin
  cat >"$$1.new"
  if cmp -s "$$1.new" "$$1"; then
    rm "$$1.new"
  else
    mv "$$1.new" "$$1"
    changed=1
  fi
}

# What bootstrap.sh reads.
put "$$home/variables.sh" <<SLIPWAY_VARIABLES
export SLIPWAY_ARTIFACTS=$artifacts
export SLIPWAY_BUNDLE=$bundle
export SLIPWAY_ROOT="$$home"
export SLIPWAY_HOST_DIR="$$home/host"
export SLIPWAY_CACHE_DIR="$$home/cache"
export SLIPWAY_START_AGAIN=1
SLIPWAY_VARIABLES

# Secrets by name: variable and Secret Manager version. Their values are read at each start and never written.
put "$$home/secrets" <<'SLIPWAY_SECRETS'
$secrets
SLIPWAY_SECRETS

put "$$home/bootstrap.sh" <<'SLIPWAY_BOOTSTRAP'
$bootstrap
SLIPWAY_BOOTSTRAP

# The service that trains.
put "$$home/run.sh" <<'SLIPWAY_RUN'
#!/usr/bin/env bash
set -euo pipefail
here=$$(cd "$$(dirname "$$0")" && pwd)
# shellcheck source=/dev/null
source "$$here/variables.sh"
metadata=http://$${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance

authorization() { # on stdout, so that the token is in no command line
  printf 'Authorization: Bearer '
  curl -fsS --retry 5 --retry-connrefused -H 'Metadata-Flavor: Google' "$$metadata/service-accounts/default/token" |
    sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p'
}

while read -r variable version; do
  [[ "$$variable" != '#' ]] || continue
  value=$$(authorization | curl -fsS --retry 5 --retry-connrefused -H @- \
    "$${SLIPWAY_SECRETS_ENDPOINT:-https://secretmanager.googleapis.com}/v1/$$version:access" |
    tr -d '\n' | sed -n 's/.*"data" *: *"\([^"]*\)".*/\1/p' | base64 -d) ||
    { printf 'secret %s cannot be read\n' "$$version" >&2 && exit 1; }
  export "$$variable=$$value"
done <"$$here/secrets"

exec bash "$$here/bootstrap.sh"
SLIPWAY_RUN

# The service that tells how far this host is, by the guest attribute $guest_attribute: at once when its phase
# is another or it stands still, else each minute, since Google limits how often.
put "$$home/report.sh" <<'SLIPWAY_REPORT'
#!/usr/bin/env bash
set -euo pipefail
here=$$(cd "$$(dirname "$$0")" && pwd)
# shellcheck source=/dev/null
source "$$here/variables.sh"
attribute=http://$${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/guest-attributes/$guest_attribute
said=
said_at=0
while true; do
  status=$$(cat "$$here/host/status.json" 2>/dev/null || printf '{"phase": "$booting"}')
  phase=$$(sed -n 's/.*"phase": "\([a-z]*\)".*/\1/p' <<<"$$status")
  still=$$(sed -n 's/.*"still_since": [0-9].*/ still/p' <<<"$$status")
  if [[ -n "$$phase" ]] && [[ "$$phase$$still" != "$$said" || $$((SECONDS - said_at)) -ge 60 ]]; then
    report="{\"bundle\": \"$$SLIPWAY_BUNDLE\", \"status\": $$status}"
    if curl -fsS -X PUT -H 'Metadata-Flavor: Google' --data-binary "$$report" "$$attribute"; then
      said=$$phase$$still
      said_at=$$SECONDS
    fi
  fi
  sleep "$${SLIPWAY_REPORT_S:-5}"
done
SLIPWAY_REPORT

unit() { # name, what it runs, what it says of its end
  put "$$units/$$1.service" <<SLIPWAY_UNIT
[Unit]
Description=Slipway: $$1
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Environment=HOME=/root
ExecStart=/bin/bash "$$home/$$2"
Restart=$$3
RestartSec=15
# 2: what the host was given cannot work; 3: the same error came again (training/exit_codes.py). No start changes that.
RestartPreventExitStatus=2 3
# A checkpoint is saved before the end.
TimeoutStopSec=600
KillMode=mixed
LimitNOFILE=1048576
LimitMEMLOCK=infinity

[Install]
WantedBy=multi-user.target
SLIPWAY_UNIT
}
unit slipway run.sh on-failure
unit slipway-report report.sh always

systemctl daemon-reload
systemctl enable slipway.service slipway-report.service
if [[ -n "$$changed" ]]; then
  systemctl restart slipway-report.service slipway.service
else
  systemctl start slipway-report.service slipway.service
fi
""")
