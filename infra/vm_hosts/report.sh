#!/usr/bin/env bash
# The service that tells how far this host is, by the guest attribute slipway/status (infra/vm_hosts/guest_report.py): at
# once when its phase is another or it stands still, else each minute, since Google limits how often.
#   GCE_METADATA_HOST   default: metadata.google.internal
#   SLIPWAY_REPORT_S    how often the status is looked at; default: 5
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
source "$here/variables.sh"
attribute=http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/guest-attributes/slipway/status
bundle=$SLIPWAY_BUNDLE
if [[ -n "$SLIPWAY_WANTED" ]]; then bundle=; fi # until bootstrap.sh knows it
said=
said_at=0
while true; do
  status=$(cat "$SLIPWAY_HOST_DIR/status.json" 2>/dev/null || printf '{"phase": "booting"}')
  phase=$(sed -n 's/.*"phase": "\([a-z]*\)".*/\1/p' <<<"$status")
  still=$(sed -n 's/.*"still_since": [0-9].*/ still/p' <<<"$status")
  if [[ -n "$phase" ]] && [[ "$phase$still" != "$said" || $((SECONDS - said_at)) -ge 60 ]]; then
    bundle=$(cat "$SLIPWAY_HOST_DIR/chosen-bundle" 2>/dev/null || printf '%s' "$bundle")
    report="{\"bundle\": \"$bundle\", \"status\": $status}"
    if curl -fsS -X PUT -H 'Metadata-Flavor: Google' --data-binary "$report" "$attribute"; then
      said=$phase$still
      said_at=$SECONDS
    fi
  fi
  sleep "${SLIPWAY_REPORT_S:-5}"
done
