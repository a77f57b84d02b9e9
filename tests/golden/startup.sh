#!/usr/bin/env bash
# v6e-32: 1 slices x 8 hosts x 4 chips
# Written by infra/vm_hosts/startup_script.py; every boot runs it again.
set -euo pipefail
export SLIPWAY_STACK=v6e-32
export SLIPWAY_ARTIFACTS=gs://slipway-artifacts-us-east5-my-project
export SLIPWAY_BUNDLE=0123456789abcdef
export SLIPWAY_WANTED=''
export SLIPWAY_SECRETS=''
SLIPWAY_FILES=$(mktemp -d)
export SLIPWAY_FILES
cat >"$SLIPWAY_FILES/startup.sh" <<'SLIPWAY_END_OF_FILE'
# startup.sh
SLIPWAY_END_OF_FILE
cat >"$SLIPWAY_FILES/train.sh" <<'SLIPWAY_END_OF_FILE'
# train.sh
SLIPWAY_END_OF_FILE
cat >"$SLIPWAY_FILES/devices.sh" <<'SLIPWAY_END_OF_FILE'
# devices.sh
SLIPWAY_END_OF_FILE
cat >"$SLIPWAY_FILES/report.sh" <<'SLIPWAY_END_OF_FILE'
# report.sh
SLIPWAY_END_OF_FILE
cat >"$SLIPWAY_FILES/logs.sh" <<'SLIPWAY_END_OF_FILE'
# logs.sh
SLIPWAY_END_OF_FILE
cat >"$SLIPWAY_FILES/bootstrap.sh" <<'SLIPWAY_END_OF_FILE'
# bootstrap.sh
SLIPWAY_END_OF_FILE
exec bash "$SLIPWAY_FILES/startup.sh"
