#!/usr/bin/env bash
# Builds an S3 server for tests from tools/s3/ (versitygw: objects are files of a directory), once per machine, and prints
# where the program is.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/building.sh
source "$root/tools/building.sh"
sources=$root/tools/s3
advice="set SLIPWAY_CACHE to one where it is built"
hash=$({ uname -sm; cat "$sources/go.mod" "$sources/go.sum"; } | sha256sum | cut -c 1-16)
made=$cache/s3/$hash

there() { [[ -x $made/versitygw ]]; }
finish() {
  printf '%s\n' "$made/versitygw"
  exit 0
}

if there; then finish; fi
begin_work "$cache/s3" "the S3 server" there
if there; then finish; fi
find_go "$advice" "$sources/go.mod"
say "building versitygw, an S3 server for tests: 1 to 3 minutes on 2 cores, once per machine"
cores=$(nproc)
with_progress "building versitygw" \
  env CGO_ENABLED=0 GOFLAGS= GOWORK=off GOGC="${GOGC:-400}" "$go" -C "$sources" build -mod=readonly -trimpath -buildvcs=false \
  -p "$((cores < 8 ? cores : 8))" -gcflags=all=-dwarf=false -ldflags "-s -w" \
  -o "$work/versitygw" github.com/versity/versitygw/cmd/versitygw || go_failed versitygw "$cache/s3/build.log" "$advice"
mkdir -p "$made"
mv -f "$work/versitygw" "$made/versitygw"
finish
