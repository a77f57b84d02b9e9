#!/usr/bin/env bash
# Written by infra/startup_script.py; every boot runs it again, and a change on the host is undone.
# v6e-32: 1 slices x 8 hosts x 4 chips
set -euo pipefail

home=${SLIPWAY_HOME:-/var/lib/slipway}
units=${SLIPWAY_UNITS:-/etc/systemd/system}
mkdir -p "$home/host"
changed=

put() { # file; takes its text from stdin
  cat >"$1.new"
  if cmp -s "$1.new" "$1"; then
    rm "$1.new"
  else
    mv "$1.new" "$1"
    changed=1
  fi
}

# What bootstrap.sh reads.
put "$home/variables.sh" <<SLIPWAY_VARIABLES
export SLIPWAY_ARTIFACTS=gs://slipway-artifacts-us-east5-my-project
export SLIPWAY_BUNDLE=0123456789abcdef
export SLIPWAY_ROOT="$home"
export SLIPWAY_HOST_DIR="$home/host"
export SLIPWAY_CACHE_DIR="$home/cache"
export SLIPWAY_START_AGAIN=1
SLIPWAY_VARIABLES

# Secrets by name: variable and Secret Manager version. Their values are read at each start and never written.
put "$home/secrets" <<'SLIPWAY_SECRETS'
# none
SLIPWAY_SECRETS

put "$home/bootstrap.sh" <<'SLIPWAY_BOOTSTRAP'
# training/bootstrap.sh
SLIPWAY_BOOTSTRAP

# The service that trains.
put "$home/run.sh" <<'SLIPWAY_RUN'
#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
source "$here/variables.sh"
metadata=http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance

authorization() { # on stdout, so that the token is in no command line
  printf 'Authorization: Bearer '
  curl -fsS --retry 5 --retry-connrefused -H 'Metadata-Flavor: Google' "$metadata/service-accounts/default/token" |
    sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p'
}

while read -r variable version; do
  [[ "$variable" != '#' ]] || continue
  value=$(authorization | curl -fsS --retry 5 --retry-connrefused -H @- \
    "${SLIPWAY_SECRETS_ENDPOINT:-https://secretmanager.googleapis.com}/v1/$version:access" |
    tr -d '\n' | sed -n 's/.*"data" *: *"\([^"]*\)".*/\1/p' | base64 -d) ||
    { printf 'secret %s cannot be read\n' "$version" >&2 && exit 1; }
  export "$variable=$value"
done <"$here/secrets"

exec bash "$here/bootstrap.sh"
SLIPWAY_RUN

# The service that tells how far this host is, by the guest attribute slipway/status: at once when its phase
# is another or it stands still, else each minute, since Google limits how often.
put "$home/report.sh" <<'SLIPWAY_REPORT'
#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
source "$here/variables.sh"
attribute=http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/guest-attributes/slipway/status
said=
said_at=0
while true; do
  status=$(cat "$here/host/status.json" 2>/dev/null || printf '{"phase": "booting"}')
  phase=$(sed -n 's/.*"phase": "\([a-z]*\)".*/\1/p' <<<"$status")
  still=$(sed -n 's/.*"still_since": [0-9].*/ still/p' <<<"$status")
  if [[ -n "$phase" ]] && [[ "$phase$still" != "$said" || $((SECONDS - said_at)) -ge 60 ]]; then
    report="{\"bundle\": \"$SLIPWAY_BUNDLE\", \"status\": $status}"
    if curl -fsS -X PUT -H 'Metadata-Flavor: Google' --data-binary "$report" "$attribute"; then
      said=$phase$still
      said_at=$SECONDS
    fi
  fi
  sleep "${SLIPWAY_REPORT_S:-5}"
done
SLIPWAY_REPORT

unit() { # name, what it runs, what it says of its end
  put "$units/$1.service" <<SLIPWAY_UNIT
[Unit]
Description=Slipway: $1
After=network-online.target
Wants=network-online.target
StartLimitIntervalSec=0

[Service]
Environment=HOME=/root
ExecStart=/bin/bash "$home/$2"
Restart=$3
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
if [[ -n "$changed" ]]; then
  systemctl restart slipway-report.service slipway.service
else
  systemctl start slipway-report.service slipway.service
fi
