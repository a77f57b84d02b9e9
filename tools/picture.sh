#!/usr/bin/env bash
# `make picture`: docs/emulator.png, the page of `slipway emulate tpu --boot` while two slices of two hosts train.
# Needs Chromium on PATH (Debian: chromium, fonts-dejavu-core). Removes the stack that it makes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PATH=$PWD/.venv/bin:$PATH
browser=$(type -P chromium || type -P chromium-browser || type -P google-chrome) ||
  { echo "chromium is not on PATH: install it, then run make picture again" >&2; exit 1; }
stack=vcpu-2x2.picture
work=$(mktemp -d)

cleanup() {
  pulumi destroy --yes --stack "$stack" --remove >"$work/destroy" 2>&1 || cat "$work/destroy" >&2
  kill -INT "$emulator" && wait "$emulator" || true
  rm -rf "$work" "stacks/Pulumi.$stack.yaml"
}

slipway stack new vcpu-2 --slices 2 --variant picture --tier spot --project try-it --zone us-east5-b
slipway emulate tpu --boot --port 0 --speed 60 >"$work/emulator" &
emulator=$!
trap cleanup EXIT
until exports=$(grep -o 'export SLIPWAY_TPU_ENDPOINT=.*' "$work/emulator"); do kill -0 "$emulator"; sleep 0.2; done
eval "$exports"
pulumi up --yes --stack "$stack"
until curl -s "$SLIPWAY_TPU_ENDPOINT/_/state" | grep -Eq '"step": [1-9][0-9]{2}'; do sleep 1; done
"$browser" --headless --no-sandbox --hide-scrollbars --window-size=1400,730 --virtual-time-budget=3000 \
  --screenshot="$work/page.png" "$SLIPWAY_TPU_ENDPOINT/" 2>"$work/browser" || { cat "$work/browser" >&2; exit 1; }
mv "$work/page.png" docs/emulator.png
echo "docs/emulator.png is written"
