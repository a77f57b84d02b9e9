#!/usr/bin/env bash
# Finds a Pulumi engine, or gets one, and prints its directory (kept in .venv/engine-path as well).
# In this order: `pulumi` on PATH, what the cache holds, the official release, a build from tools/engine/.
#
# SLIPWAY_ENGINE_URL  where releases are published (default: Pulumi's own site)
# SLIPWAY_CACHE       where engines are kept (default: ${XDG_CACHE_HOME:-~/.cache}/slipway)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/building.sh
source "$root/tools/building.sh"

sources=$root/tools/engine
oldest_usable=3.200
parts=(pulumi pulumi-language-python pulumi-language-python-exec)
install_hint="install pulumi >= $oldest_usable (https://www.pulumi.com/docs/iac/download-install/) and run this again"

version=$(awk '$1 == "require" && $2 == "github.com/pulumi/pulumi/pkg/v3" { print $3 }' "$sources/cli/go.mod")

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
shopt -s globstar
hash=$(cd "$sources" && export LC_ALL=C && { uname -sm; sha256sum ./**/*.go ./**/go.mod ./**/go.sum; } | sha256sum | cut -c 1-16)
engines=$cache/engine
engine=$engines/$hash

complete() {
  local part
  for part in "${parts[@]}"; do [[ -x $1/$part ]] || return 1; done
}

if complete "$engine"; then finish "$engine"; fi

begin_work "$engines" "the engine" complete "$engine"
if complete "$engine"; then finish "$engine"; fi
made=$work/engine
mkdir "$made"

publish() { # publish <how it was made>
  complete "$made" || die "$1 lacks one of: ${parts[*]}"
  rm -rf "$engine"
  mv "$made" "$engine"
  say "Pulumi engine $version ready: $1 in $SECONDS s"
  finish "$engine"
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

find_go "$install_hint" "$sources"/*/go.mod

# --- build ---
say "this takes 2 to 6 minutes on 2 cores, once per machine"
cores=$(nproc)
# Debug information would be stripped at the link (-s -w), so the compiler need not write it; and a compiler that
# collects garbage less often is done sooner, for 1 GiB more.
export GOGC=${GOGC:-400}

# Almost half of what would be compiled serves what no stack of this project asks for. Go replaces whole modules only,
# so each module of which something is left out is copied, and what lies in left-out takes the place of those packages.
leave_out() { # leave_out <folder>: a copy of it in $work that builds without
  local build=$work/$1 packages package module from copy
  cp -R "$sources/$1" "$build"
  readarray -t packages < <(cd "$build/left-out" && dirname ./**/*.go | cut -c 3-)
  with_progress "reading what is left out of $1" "$go" -C "$build" list -mod=readonly -find \
    -f 'package {{.ImportPath}} {{.Module.Path}} {{.Module.Dir}}' "${packages[@]}" ||
    go_failed "$1" "$engines/build.log" "$install_hint" ", since tools/engine/$1/left-out names a package that this version does not have"
  while read -r _ package module from; do
    copy=modules/${module//\//+}
    if [[ ! -d $build/$copy ]]; then
      mkdir -p "$build/$copy"
      tar -C "$from" --exclude=testdata --exclude='*_test.go' --mode=u+w -cf - . | tar -C "$build/$copy" -xf -
      "$go" -C "$build" mod edit -replace="$module=./$copy" # a path of this machine would be in the program
    fi
    rm "$build/$copy${package#"$module"}"/*.go
    cp "$build/left-out/$package"/*.go "$build/$copy${package#"$module"}"
  done < <(grep '^package ' "$log")
}

build() { # build <what> <folder> <package> <linker flags>
  # two compilers at a time need about 2 GiB
  with_progress "building $1" \
    "$go" -C "$work/$2" build -v -mod=readonly -trimpath -p "$((cores < 8 ? cores : 8))" \
    -gcflags=all=-dwarf=false -ldflags "$4" -o "$made/$1" "$3" || go_failed "$1" "$engines/build.log" "$install_hint"
}

command=github.com/pulumi/pulumi/pkg/v3/cmd/pulumi
leave_out cli
beside "$go" -C "$work/cli" list -mod=readonly -deps "$command" # downloads, while the other is compiled
leave_out language-python
build pulumi-language-python language-python github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python "-s -w"
module=$("$go" -C "$work/language-python" list -mod=readonly -m -f '{{.Dir}}' github.com/pulumi/pulumi/sdk/v3)
install -m 755 "$module/python/cmd/pulumi-language-python-exec" "$made/"
wait_beside || true # what failed of it, the build says
build pulumi cli "$command" \
  "-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=$version"
publish "built from source"
