#!/usr/bin/env bash
# Makes this host's Python environment from the hosts' lock, then becomes training.launch.
#
# Reads only exported variables:
#   SLIPWAY_SOURCE    directory that holds training/
#   SLIPWAY_ENV_ROOT  where environments live, one per lock, extra and Python; hosts of one machine share it
#   SLIPWAY_EXTRA     cpu, tpu or gpu
#   SLIPWAY_HOST_DIR  this host's own directory
#   SLIPWAY_RUN_SPEC  the run spec
#   SLIPWAY_UV        uv's path; else uv of PATH
#   SLIPWAY_CACHE_DIR compiled programs; default: in the host's directory
#   SLIPWAY_BOOTSTRAP_ONLY  1: stop once the environment stands; its Python is the last line of stdout
set -euo pipefail

started=$(date +%s)
readonly started
SLIPWAY_RUN_SPEC=${SLIPWAY_RUN_SPEC:+$(realpath -m "$SLIPWAY_RUN_SPEC")}
SLIPWAY_CACHE_DIR=${SLIPWAY_CACHE_DIR:+$(realpath -m "$SLIPWAY_CACHE_DIR")}

# status.json, as training/host_status.py reads it.
say() { # phase, exit code or null, reason or nothing
  local reason=null
  if [[ -n "${3:-}" ]]; then
    reason=$(printf '%s' "$3" | tr '\n\t' '  ' | tr -d '"\\\000-\037')
    reason="\"$reason\""
  fi
  printf '{"phase": "%s", "started": %s, "updated": %s, "exit_code": %s, "reason": %s}\n' \
    "$1" "$started" "$(date +%s)" "$2" "$reason" >"$SLIPWAY_HOST_DIR/status.json.$$"
  mv "$SLIPWAY_HOST_DIR/status.json.$$" "$SLIPWAY_HOST_DIR/status.json"
}

fail() { # exit code, reason
  printf 'bootstrap: %s\n' "$2" >&2
  say failed "$1" "$2"
  exit "$1"
}

child= # what runs in the background, so that a signal is heard at once
stop() {
  [[ -z "$child" ]] || kill "$child" 2>/dev/null || true
  say interrupted 75 'told to stop while the environment was made'
  exit 75
}

# What must be given.
mkdir -p "${SLIPWAY_HOST_DIR:?is not set}"
SLIPWAY_HOST_DIR=$(realpath "$SLIPWAY_HOST_DIR")
say bootstrapping null
trap stop TERM INT
for name in SLIPWAY_SOURCE SLIPWAY_ENV_ROOT SLIPWAY_EXTRA; do
  [[ -n "${!name:-}" ]] || fail 2 "$name is not set"
done
SLIPWAY_SOURCE=$(realpath -m "$SLIPWAY_SOURCE")
SLIPWAY_ENV_ROOT=$(realpath -m "$SLIPWAY_ENV_ROOT")
project="$SLIPWAY_SOURCE/training"
lock="$project/uv.lock"
[[ -f "$lock" ]] || fail 2 "there is no $lock; SLIPWAY_SOURCE must be the directory that holds training/"
[[ "$SLIPWAY_EXTRA" =~ ^(cpu|tpu|gpu)$ ]] || fail 2 "SLIPWAY_EXTRA is '$SLIPWAY_EXTRA'; give cpu, tpu or gpu"
[[ -n "${SLIPWAY_BOOTSTRAP_ONLY:-}" || -n "$SLIPWAY_RUN_SPEC" ]] || fail 2 'SLIPWAY_RUN_SPEC is not set'

# Which environment: the first 16 hex digits of the SHA-256 of lock, extra and Python version.
key=$({ cat "$lock" "$project/.python-version"; printf '%s' "$SLIPWAY_EXTRA"; } | sha256sum | cut -c1-16)
environment="$SLIPWAY_ENV_ROOT/$key"
python="$environment/bin/python"

# Make it once. The stamp is written last, so an environment that a kill cut short is made again.
if [[ ! -f "$environment/.complete" ]]; then
  uv=${SLIPWAY_UV:-$(command -v uv || true)}
  [[ -x "$uv" ]] || fail 2 "uv is not at '${SLIPWAY_UV:-}' nor on PATH; set SLIPWAY_UV"
  mkdir -p "$SLIPWAY_ENV_ROOT" || fail 1 "$SLIPWAY_ENV_ROOT cannot be made"
  exec {held}>"$SLIPWAY_ENV_ROOT/$key.lock"
  flock "$held" & # waits while another host installs
  child=$!
  wait "$child"
  if [[ ! -f "$environment/.complete" ]]; then
    rm -rf "$environment"
    errors="$SLIPWAY_HOST_DIR/bootstrap.errors"
    cd "$project" # where .python-version also leads pyenv's shims
    UV_PROJECT_ENVIRONMENT="$environment" "$uv" sync --frozen --no-dev --extra "$SLIPWAY_EXTRA" 2>"$errors" {held}>&- &
    child=$!
    if ! wait "$child"; then
      cat "$errors" >&2
      fail 1 "uv could not make the environment: $(grep -m1 '^error' "$errors" || true) $(tail -n 1 "$errors")"
    fi
    touch "$environment/.complete"
  fi
  exec {held}>&-
fi

# Become the launcher.
trap - TERM INT
if [[ -n "${SLIPWAY_BOOTSTRAP_ONLY:-}" ]]; then
  printf '%s\n' "$python"
  exit 0
fi
cd "$SLIPWAY_SOURCE"
unset PYTHONDONTWRITEBYTECODE # compiled imports are half of a start
exec "$python" -m training.launch "$SLIPWAY_RUN_SPEC" --host-dir "$SLIPWAY_HOST_DIR" \
  --cache-dir "${SLIPWAY_CACHE_DIR:-$SLIPWAY_HOST_DIR/cache}"
