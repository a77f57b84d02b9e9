#!/usr/bin/env bash
# The service that mounts a bucket's prepared text, read-only, with gcsfuse from the artifact store. It ends with the mount.
#
# Why there is no mount stands in data-mount.says beside it, for the training to say. The program is root's: its hash comes
# with the startup script, as this file does.
#   GCE_METADATA_HOST         default: metadata.google.internal
#   SLIPWAY_STORAGE_ENDPOINT  default: https://storage.googleapis.com
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
source "$here/variables.sh"
endpoint=${SLIPWAY_STORAGE_ENDPOINT:-}
storage=${endpoint:-https://storage.googleapis.com}/storage/v1/b
at=${here%/*}/data-mount
place=${SLIPWAY_DATA_MOUNT#gs://}
bucket=${place%%/*}
folder=${place#"$bucket"}
program=$here/gcsfuse
export HOME=$here # gcsfuse would take credentials from it, and the one of its unit is the training's to write in

fail() {
  printf '%s\n' "$1" >"$at.says"
  printf 'mount: %s\n' "$1" >&2
  exit 1
}

is_right() { [[ -f "$1" ]] && printf '%s  %s\n' "$SLIPWAY_MOUNT_PROGRAM" "$1" | sha256sum --check --status; }

authorization() {
  printf 'Authorization: Bearer '
  curl -fsS --retry 5 --retry-connrefused --max-time 60 -H 'Metadata-Flavor: Google' \
    "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/service-accounts/default/token" |
    sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p'
}

fetch() { # key of the artifact store, file
  local path=${SLIPWAY_ARTIFACTS#gs://} key
  if [[ "$SLIPWAY_ARTIFACTS" != gs://* ]]; then
    cp "$SLIPWAY_ARTIFACTS/$1" "$2"
    return
  fi
  key=${path#"${path%%/*}"}/$1
  key=${key#/}
  curl -fsS --retry 5 --retry-connrefused -H @<(authorization) -o "$2" "$storage/${path%%/*}/o/${key//\//%2F}?alt=media"
}

# gcsfuse itself would go on asking for ever, and say nothing.
ask_the_bucket() {
  local answer code role=
  answer=$(curl -sS --retry 5 --retry-connrefused --max-time 60 -H @<(authorization) --write-out '\n%{http_code}' \
    "$storage/$bucket/o?maxResults=1" 2>&1) || fail "gs://$bucket cannot be reached: ${answer//$'\n'/ }"
  code=${answer##*$'\n'}
  if [[ "$code" == 200 ]]; then return; fi
  if [[ "$code" == 403 ]]; then role="; this host's account needs roles/storage.objectViewer there, which a foundation gives it"; fi
  fail "gs://$bucket answers $code: $(sed -n 's/.*"message" *: *"\(.*\)".*/\1/p' <<<"$answer" | head -n 1)$role"
}

# What a program of before has left: a mount that nobody serves.
while umount -l "$at" 2>/dev/null; do :; done
mkdir -p "$at"
rm -f "$at.says"

[[ -e /dev/fuse ]] || modprobe fuse 2>/dev/null || true
[[ -e /dev/fuse ]] || fail 'this host has no /dev/fuse, without which no bucket can be mounted; write data_on_hosts: copy'
if ! is_right "$program"; then
  said=$(fetch "objects/$SLIPWAY_MOUNT_PROGRAM/gcsfuse" "$program.new" 2>&1) ||
    fail "gcsfuse cannot be fetched from $SLIPWAY_ARTIFACTS: ${said##*$'\n'}"
  is_right "$program.new" || fail "gcsfuse of $SLIPWAY_ARTIFACTS is not the one that the startup script names; refused"
  install -m 755 "$program.new" "$program"
  rm "$program.new"
fi

ask_the_bucket

# Objects were pushed without folders (implicit-dirs). What is known of an object holds for a minute, so a shard that is
# pushed again is found; on TPU machines gcsfuse would keep it for ever. No file cache, which would be the copy again.
# Folders of their own (hns) are asked for over gRPC, which nothing else here needs.
flags=(--foreground -o 'ro,allow_other,nodev,nosuid,noexec' --uid=0 --gid=0 --file-mode=444 --dir-mode=555 --implicit-dirs
  --metadata-cache-ttl-secs=60 --enable-hns=false --trace-exporters= --log-severity=warning --log-format=text)
if [[ -n "$folder" ]]; then flags+=(--only-dir "${folder#/}"); fi
if [[ -n "$endpoint" ]]; then flags+=(--custom-endpoint "$endpoint/storage/v1/"); fi

printf 'mount: gs://%s at %s\n' "$place" "$at"
"$program" "${flags[@]}" "$bucket" "$at" 2>&1 | while IFS= read -r line; do
  printf '%s\n' "$line"
  if [[ -n "$line" ]]; then printf '%s\n' "$line" >"$at.says"; fi
done
