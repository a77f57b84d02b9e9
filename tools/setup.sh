#!/usr/bin/env bash
# Makes this clone ready to use: uv, the Python environment in .venv, a Pulumi engine.
# A second run with nothing to do only compares a stamp.
#
# SLIPWAY_CACHE  where tools are kept between clones (default: ${XDG_CACHE_HOME:-~/.cache}/slipway)
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
uv_version=0.13.8
oldest_usable_uv=0.8
python_hint="install it (Debian and Ubuntu: apt install python3.12 python3.12-venv; pyenv: pyenv install 3.12; or install uv, which fetches one)"

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# --- anything to do? ---
stamp=.venv/setup-stamp
# The clone's own path is part of it: scripts in .venv name it, so a moved clone needs a new environment.
wanted=$({ printf '%s\n' "$root"; sha256sum pyproject.toml uv.lock .python-version tools/setup.sh tools/building.sh tools/engine.sh; find tools/engine -type f -exec sha256sum {} + | LC_ALL=C sort; } | sha256sum)

engine_there() {
  local engine
  [[ -r .venv/engine-path ]] && IFS= read -r engine <.venv/engine-path && [[ -x $engine/pulumi ]]
}
ready() {
  [[ -r $stamp && $(<"$stamp") == "$wanted" && -x .venv/bin/python && -x .venv/bin/uv && -x .venv/bin/pulumi ]] && engine_there
}
if ready; then exit 0; fi

# --- one setup at a time ---
command -v flock >/dev/null || die "flock is missing; install util-linux"
mkdir -p .slipway
exec 8>.slipway/setup.lock
if ! flock -n 8; then
  say "another setup of this clone is running; waiting for it"
  flock 8
  if ready; then exit 0; fi
fi
rm -f "$stamp"

[[ -n ${SLIPWAY_CACHE:-}${XDG_CACHE_HOME:-}${HOME:-} ]] || die "no place for a cache; set HOME or SLIPWAY_CACHE"
# A registry behind an organisation's own certificate is known to the system's store, not to the one inside uv.
if [[ -s /etc/ssl/certs/ca-certificates.crt ]]; then export UV_SYSTEM_CERTS=${UV_SYSTEM_CERTS:-true}; fi
cache=${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/slipway}

# --- Python 3.12 ---
is_python_312() { [[ $("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) == 3.12 ]]; }

python=
for name in python3.12 python3 python; do
  # a pyenv shim exists for every version that was ever installed; running it tells
  if command -v "$name" >/dev/null && is_python_312 "$name"; then
    python=$("$name" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))')
    break
  fi
done

# --- uv: the one on PATH if it is new enough, else a copy of our own ---
usable_uv() {
  local found
  found=$("$1" --version 2>/dev/null) || return 1
  found=${found#uv }
  [[ $(printf '%s\n' "${found%% *}" "$oldest_usable_uv" | sort -V | head -n 1) == "$oldest_usable_uv" ]]
}

uv=
while IFS= read -r candidate; do
  # an activated .venv offers our own link, which must not come to point at itself
  if [[ $candidate -ef .venv/bin/uv ]]; then candidate=$(readlink -f "$candidate"); fi
  if usable_uv "$candidate"; then uv=$candidate; break; fi
done < <(type -aP uv || true)

if [[ -z $python && -n $uv ]]; then
  python=$("$uv" python find --no-python-downloads 3.12 2>/dev/null) ||
    { say "no Python 3.12 on this machine; asking uv for one" && "$uv" python install -q 3.12 2>/dev/null && python=$("$uv" python find 3.12); } || true
fi
[[ -n $python ]] || die "Python 3.12 is missing; $python_hint"

if [[ -z $uv ]]; then
  home=$cache/uv/$uv_version
  uv=$home/bin/uv
  if ! usable_uv "$uv"; then
    say "installing uv $uv_version into $home"
    mkdir -p "$cache/uv" 2>/dev/null && [[ -w $cache/uv ]] || die "cannot write $cache/uv; set SLIPWAY_CACHE to a directory of yours"
    exec 9>"$cache/uv/.lock" # the cache is shared with other clones
    flock 9
    if ! usable_uv "$uv"; then
      work=$(mktemp -d "$cache/uv/.work.XXXXXX")
      trap 'rm -rf "$work"' EXIT
      "$python" -m venv "$work/venv" >"$work/log" 2>&1 ||
        die "$python cannot make a virtual environment; install its venv module (Debian and Ubuntu: apt install python3.12-venv), or install uv"
      "$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$uv_version" >"$work/log" 2>&1 ||
        die "uv $uv_version cannot be installed from the Python package registry ($(grep -m 1 ERROR "$work/log" || tail -n 1 "$work/log")); install uv >= $oldest_usable_uv, or set PIP_INDEX_URL to a registry this machine can reach"
      rm -rf "$home"
      mv "$work/venv" "$home"
      rm -rf "$work"
      trap - EXIT
    fi
    exec 9>&-
  fi
fi

# --- the Pulumi engine, and meanwhile the project's Python environment: one computes while the other downloads ---
engine=
# shellcheck disable=SC2329  # called by the trap
end_engine() { if [[ -n $engine ]]; then kill -- "-$engine" 2>/dev/null || true; fi; }
trap end_engine EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
set -m # a group of its own: what the shell starts in the background does not hear Ctrl-C
PATH=$(dirname "$uv"):$PATH SLIPWAY_PYTHON=$python tools/engine.sh >.slipway/engine-path 8>&- &
engine=$!
set +m

say "installing the Python environment into .venv"
# Another active environment, or one the user set for other projects, is not ours to change.
env -u VIRTUAL_ENV UV_PROJECT_ENVIRONMENT="$root/.venv" "$uv" sync --quiet --frozen --compile-bytecode --python "$python" 2>.slipway/setup.log 8>&- ||
  die "uv sync failed: $(grep -m 1 -E '^ *(error|cause|×)' .slipway/setup.log || head -n 1 .slipway/setup.log); does this machine reach a Python package registry (UV_DEFAULT_INDEX names one)? All of it: .slipway/setup.log"
rm -f .slipway/setup.log
if ! [[ $uv -ef .venv/bin/uv ]]; then ln -sfn "$uv" .venv/bin/uv; fi
.venv/bin/python -m compileall -q infra training # what the first command would do anyway, once

status=0
wait "$engine" || status=$?
engine=
if ((status)); then exit "$status"; fi # it has said why
mv -f .slipway/engine-path .venv/engine-path

printf '%s\n' "$wanted" >"$stamp.new"
mv -f "$stamp.new" "$stamp"
say "ready"
