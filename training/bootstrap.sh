#!/usr/bin/env bash
# From a bare host to training.launch: fetch the bundle, check it, install its wheels without any index, train.
#
# Reads only exported variables:
#   SLIPWAY_ARTIFACTS  where bundles and wheels lie: a directory, gs://bucket[/prefix] or s3://bucket[/prefix]
#   SLIPWAY_BUNDLE     the hash of the bundle to run
#   SLIPWAY_WANTED     the object of that store which says another one; default: none. Read once, into chosen-bundle of the
#                      host's directory: who wants it read again removes that
#   SLIPWAY_ROOT       where this machine keeps bundles and environments; hosts of one machine share it
#   SLIPWAY_HOST_DIR   this host's own directory
#   SLIPWAY_CACHE_DIR  compiled programs; default: in the host's directory
#   SLIPWAY_SECRETS           lines "<variable> <Secret Manager version> [optional]": read for the training alone
#   SLIPWAY_START_AGAIN       1: training that ends is started again where that may help (training/restarts.py)
#   SLIPWAY_BOOTSTRAP_ONLY    1: stop once bundle and environment stand; their paths are the last lines of stdout
#   SLIPWAY_STORAGE_ENDPOINT  default: https://storage.googleapis.com
#   SLIPWAY_SECRETS_ENDPOINT  default: https://secretmanager.googleapis.com
#   GCE_METADATA_HOST         default: metadata.google.internal
#   of s3://                  what s3_objects.py names, which lies beside this file
set -euo pipefail

started=$(date +%s)
readonly started

# status.json, as training/host_status.py reads it. On a full disk there is room for it where the one before was.
say() { # phase, exit code or null, reason or nothing
  local reason=null status
  if [[ -n "${3:-}" ]]; then
    reason=$(printf '%s' "$3" | tr '\n\t' '  ' | tr -d '"\\\000-\037')
    reason="\"$reason\""
  fi
  printf -v status '{"phase": "%s", "started": %s, "updated": %s, "exit_code": %s, "reason": %s}\n' \
    "$1" "$started" "$(date +%s)" "$2" "$reason"
  if printf '%s' "$status" 2>/dev/null >"$SLIPWAY_HOST_DIR/status.json.$$"; then
    mv "$SLIPWAY_HOST_DIR/status.json.$$" "$SLIPWAY_HOST_DIR/status.json"
  else
    rm -f "$SLIPWAY_HOST_DIR/status.json.$$"
    printf '%s' "$status" >"$SLIPWAY_HOST_DIR/status.json"
  fi
}

fail() { # exit code, reason
  local reason=$2 full
  if [[ ! -s "$errors" ]] && ! full=$({ printf ' ' >"$errors"; } 2>&1); then # why it failed could not be written down
    reason=${reason:+$reason }${full##*: }:\ $SLIPWAY_HOST_DIR
  fi
  printf 'bootstrap: %s\n' "$reason" >&2
  say failed "$1" "$reason"
  exit "$1"
}

child= # what runs in the background, so that a signal is heard at once
stop() {
  [[ -z "$child" ]] || kill "$child" 2>/dev/null || true
  say interrupted 75 'told to stop while the environment was made'
  exit 75
}

run() { # command...; its errors go to $errors
  "$@" 2>"$errors" {held}>&- &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=
  return "$status"
}

last_error() { tail -n 1 "$errors"; }
all_errors() { # what failed, and at the end why
  local text
  text=$(tr -s ' \n' ' ' <"$errors")
  if ((${#text} > 400)); then text="${text:0:140} ... ${text: -255}"; fi
  printf '%s\n' "$text"
}

# What must be given.
mkdir -p "${SLIPWAY_HOST_DIR:?is not set}"
SLIPWAY_HOST_DIR=$(realpath "$SLIPWAY_HOST_DIR")
SLIPWAY_CACHE_DIR=$(realpath -m "${SLIPWAY_CACHE_DIR:-$SLIPWAY_HOST_DIR/cache}")
errors=$SLIPWAY_HOST_DIR/bootstrap.errors
say bootstrapping null
trap stop TERM INT
for name in SLIPWAY_ARTIFACTS SLIPWAY_BUNDLE SLIPWAY_ROOT; do
  [[ -n "${!name:-}" ]] || fail 2 "$name is not set"
done
[[ "$SLIPWAY_BUNDLE" =~ ^[0-9a-f]{16}$ ]] || fail 2 "SLIPWAY_BUNDLE is '$SLIPWAY_BUNDLE'; give 16 hex digits"
mkdir -p "$SLIPWAY_ROOT" 2>"$errors" || fail 1 "$(last_error)"
SLIPWAY_ROOT=$(realpath "$SLIPWAY_ROOT")

# Who this machine is to Google: its service account, whose token stays out of every command line.
authorization=
authorize() { # what for
  [[ -z "$authorization" ]] || return 0
  command -v curl >/dev/null || fail 1 "curl is missing on this host; it fetches $1"
  local answer
  answer=$(curl -fsS --retry 5 --retry-connrefused --max-time 60 -H 'Metadata-Flavor: Google' \
    "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/instance/service-accounts/default/token" \
    2>"$errors") || fail 1 "the metadata server gives no token for $1: $(last_error)"
  answer=$(sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p' <<<"$answer")
  [[ -n "$answer" ]] || fail 1 "the metadata server answers without a token for $1"
  authorization="Authorization: Bearer $answer"
}

# Objects of the store: linked from a directory, downloaded from a bucket.

fetch_all() { # reads lines "<key> <file>"; every file is there afterwards, not yet checked
  local key file path prefix
  if [[ "$SLIPWAY_ARTIFACTS" == s3://* ]]; then
    command -v python3 >/dev/null || fail 2 "python3 is missing in this image; it fetches $SLIPWAY_ARTIFACTS"
    cat >"$work/downloads"
    run python3 -I "$(dirname "${BASH_SOURCE[0]}")/s3_objects.py" "$SLIPWAY_ARTIFACTS" "$work/downloads" ||
      fail 1 "fetching from $SLIPWAY_ARTIFACTS: $(last_error)"
    return
  fi
  if [[ "$SLIPWAY_ARTIFACTS" != gs://* ]]; then
    while read -r key file; do
      [[ -f "$SLIPWAY_ARTIFACTS/$key" ]] || fail 1 "$SLIPWAY_ARTIFACTS/$key is missing; build and push the wheelhouse again"
      ln -sfn "$(realpath "$SLIPWAY_ARTIFACTS/$key")" "$file" 2>"$errors" || fail 1 "$(last_error)"
    done
    return
  fi
  authorize "$SLIPWAY_ARTIFACTS"
  path=${SLIPWAY_ARTIFACTS#gs://}
  prefix=${path#*/}
  if [[ "$prefix" == "$path" ]]; then prefix=; else prefix=${prefix%/}/; fi
  while read -r key file; do
    key=$prefix$key
    key=${key//\//%2F}
    printf 'url = "%s/storage/v1/b/%s/o/%s?alt=media"\noutput = "%s"\n' \
      "${SLIPWAY_STORAGE_ENDPOINT:-https://storage.googleapis.com}" "${path%%/*}" "${key//+/%2B}" "$file"
  done >"$work/downloads"
  # In parallel curl says nothing of a refusal, so each transfer reports its own status.
  run curl -fsS --retry 5 --retry-connrefused --parallel --parallel-max 8 -H @<(printf '%s' "$authorization") \
    --write-out '%{stderr}got %{http_code} %{filename_effective}\n' --config "$work/downloads" ||
    fail 1 "fetching from $SLIPWAY_ARTIFACTS: $(sed -n 's|^got \([013-9][0-9]*\) .*/|\1 for |p' "$errors" | head -n 3 | paste -sd ' ')$(sed -n 's/^curl:/ curl:/p' "$errors" | head -n 1)$(missing_role)"
}

missing_role() { # what to add to a refusal
  if grep -q '^got 403 ' "$errors"; then
    printf '%s' "; this host's account needs roles/storage.objectViewer there, which a foundation gives it"
  fi
}

# Which bundle: a request that waits cannot be told of another one, so its hosts ask.

choose_bundle() { # sets SLIPWAY_BUNDLE
  local chosen=$SLIPWAY_HOST_DIR/chosen-bundle said work=$SLIPWAY_HOST_DIR/.choosing held
  if [[ ! -f "$chosen" ]]; then
    exec {held}</dev/null # where the lock will be, which `run` lets nobody keep
    rm -rf "$work"
    mkdir "$work" 2>"$errors" || fail 1 "$(last_error)"
    fetch_all <<<"$SLIPWAY_WANTED $work/wanted-bundle"
    said=$(<"$work/wanted-bundle")
    [[ "$said" =~ ^[0-9a-f]{16}$ ]] || fail 1 "$SLIPWAY_WANTED of $SLIPWAY_ARTIFACTS is '${said:0:40}', which is no bundle; run pulumi up"
    printf '%s\n' "$said" >"$work/chosen"
    mv "$work/chosen" "$chosen"
    rm -r "$work"
    exec {held}<&-
  fi
  SLIPWAY_BUNDLE=$(<"$chosen")
}
if [[ -n "${SLIPWAY_WANTED:-}" ]]; then choose_bundle; fi
bundle=$SLIPWAY_ROOT/bundles/$SLIPWAY_BUNDLE

check_sums() { # file of sums, directory; stops with the names of what is not as it should be
  local wrong
  wrong=$(cd "$2" && LC_ALL=C sha256sum --check --quiet --strict "$1" 2>&1) ||
    fail 1 "corrupt or missing: $(grep -v '^sha256sum:' <<<"$wrong" | sed 's/: FAILED.*//' | sort -u | head -n 3 | paste -sd ' ')"
}

fetch_bundle() {
  local made=$work/bundle listed found
  mkdir -p "$made" "$SLIPWAY_ROOT/bundles"
  fetch_all <<<"bundles/$SLIPWAY_BUNDLE/bundle.tar $work/bundle.tar"
  tar -xf "$work/bundle.tar" -C "$made" 2>"$errors" || fail 1 "bundle $SLIPWAY_BUNDLE cannot be unpacked: $(head -n 1 "$errors")"
  found=$(sha256sum <"$made/MANIFEST" | cut -c1-16) || fail 1 "bundle $SLIPWAY_BUNDLE has no MANIFEST"
  [[ "$found" == "$SLIPWAY_BUNDLE" ]] || fail 1 "bundle.tar is bundle $found, not $SLIPWAY_BUNDLE; refused"
  check_sums MANIFEST "$made"
  listed=$(wc -l <"$made/MANIFEST")
  found=$(find "$made" ! -type d | wc -l)
  ((found == listed + 1)) || fail 1 "bundle $SLIPWAY_BUNDLE holds files that its MANIFEST does not name; refused"
  mv -T "$made" "$bundle"
}

python_for_hosts() { # sets $interpreter: the archive's that the bundle names, else 3.12 as uv finds it here
  local digest archive home uv=$1
  if [[ ! -f "$bundle/python.sha256" ]]; then
    interpreter=3.12
    run "$uv" python find --no-config --no-project --no-python-downloads 3.12 >/dev/null ||
      fail 2 'this host has no Python 3.12 and the bundle names none; set slipway:python_archive, then pulumi up'
    return
  fi
  read -r digest archive <"$bundle/python.sha256"
  grep -qxF "$digest  $archive" "$work/sums/SHA256SUMS" ||
    fail 2 "wheelhouse $wheelhouse has not the Python that bundle $SLIPWAY_BUNDLE names ($archive, SHA-256 ${digest:0:12}); refused"
  home=$SLIPWAY_ROOT/python/${digest:0:16}
  if [[ ! -d "$home" ]]; then
    mkdir -p "$work/python" "$SLIPWAY_ROOT/python" 2>"$errors" || fail 1 "$(last_error)"
    tar -xzf "$wheels/$archive" -C "$work/python" 2>"$errors" || fail 1 "$archive cannot be unpacked: $(head -n 1 "$errors")"
    mv -T "$work/python" "$home"
  fi
  interpreter=$home/python/bin/python3.12
  [[ -e "$interpreter" ]] || fail 2 "$archive holds no python/bin/python3.12; give an install_only archive"
  run "$interpreter" -I -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' ||
    fail 2 "the Python of $archive does not run on this host ($(uname -m)): $(last_error)"
}

vouched() { # SHA-256 of all that this bundle installs: what its lock names, what is made of that, its Python
  sed -n 's/.*sha256 = "\([0-9a-f]\{64\}\)".*/\1/p' "$bundle/pylock.toml"
  cut -c1-64 "$bundle/made.sums"
  [[ ! -f "$bundle/python.sha256" ]] || cut -c1-64 "$bundle/python.sha256"
}

make_environment() { # $wheelhouse -> $environment; its stamp is written last
  local uv=$work/uv sums=$work/sums/SHA256SUMS interpreter unknown compiled=()
  mkdir -p "$wheels" "$work/sums"
  fetch_all <<<"wheelhouses/$wheelhouse/SHA256SUMS $work/sums/all"
  # requirements.txt is of 0.1.0, which took a list from the same store; gcsfuse is mount.sh's, for root checks what it runs.
  grep -vE '  (requirements\.txt|gcsfuse)$' "$work/sums/all" >"$sums" || true
  unknown=$(vouched | sed -n 's/^[0-9a-f]\{64\}$/^&  /p' | grep -vf - "$sums" | cut -c67- | head -n 3 | paste -sd ' ') || true
  [[ -z "$unknown" ]] ||
    fail 2 "wheelhouse $wheelhouse has files that bundle $SLIPWAY_BUNDLE does not vouch for: $unknown; refused"
  fetch_all < <(while read -r digest file; do printf '%s %s\n' "objects/$digest/$file" "$wheels/$file"; done <"$sums")
  check_sums "$sums" "$wheels"
  install -m 755 "$wheels/uv" "$uv" 2>"$errors" || fail 1 "$(last_error)"
  cd "$bundle/training" # where .python-version leads pyenv's shims
  python_for_hosts "$uv"
  rm -rf "$environment"
  run "$uv" venv --quiet --no-config --no-project --no-python-downloads --python "$interpreter" "$environment" ||
    fail 1 "uv cannot make the environment: $(all_errors)"
  # The first start would compile what it imports in one thread; all that there is takes longer on few cores.
  if (($(nproc) >= 16)); then compiled=(--compile-bytecode); fi
  run "$uv" pip install --quiet --no-config --python "$environment/bin/python" --offline --no-index --no-deps \
    "${compiled[@]}" --cache-dir "$SLIPWAY_ROOT/uv-cache" "$wheels"/*.whl ||
    fail 1 "uv cannot install the wheels: $(all_errors)"
  touch "$environment/.complete" 2>"$errors" || fail 1 "$(last_error)"
}

# Bundle and environment, each made once: what a kill cut short is made again, what stood before stays.
ready() {
  [[ -f "$bundle/MANIFEST" ]] || return 1
  wheelhouse=$(<"$bundle/wheelhouse")
  environment=$SLIPWAY_ROOT/env/$wheelhouse
  wheels=$SLIPWAY_ROOT/wheels/$wheelhouse
  [[ -f "$environment/.complete" ]]
}
if ! ready; then
  exec {held}>"$SLIPWAY_ROOT/bootstrap.lock"
  flock "$held" & # waits while another host of this machine installs
  child=$!
  wait "$child"
  child=
  work=$(mktemp -d "$SLIPWAY_ROOT/.bootstrap.XXXXXX" 2>"$errors") || fail 1 "$(last_error)"
  trap 'rm -rf "$work"' EXIT
  [[ -f "$bundle/MANIFEST" ]] || fetch_bundle
  if ! ready; then
    make_environment
    rm -rf "$wheels"
  fi
  rm -rf "$work"
  trap - EXIT
  exec {held}>&-
fi

# The switch from one bundle to the next is one rename.
ln -sfn "$bundle" "$SLIPWAY_HOST_DIR/.bundle.$$" 2>"$errors" || fail 1 "$(last_error)"
mv -T "$SLIPWAY_HOST_DIR/.bundle.$$" "$SLIPWAY_HOST_DIR/bundle"

# Secrets, last of all: their values are in the environment of the training alone.
read_secret() { # variable, Secret Manager version, optional or nothing
  local answer code value project secret
  [[ -z "${!1+set}" ]] || fail 2 "secret $2 would replace $1 of this host; give it another name"
  answer=$(curl -sS --retry 5 --retry-connrefused --max-time 60 -H @<(printf '%s' "$authorization") \
    --write-out '\n%{http_code}' "${SLIPWAY_SECRETS_ENDPOINT:-https://secretmanager.googleapis.com}/v1/$2:access" \
    2>"$errors") || fail 1 "secret $2 cannot be read: $(last_error)"
  code=${answer##*$'\n'}
  case "$code" in
    200)
      value=$(tr -d '\n' <<<"$answer" | sed -n 's/.*"data" *: *"\([^"]*\)".*/\1/p' | base64 -d) ||
        fail 1 "secret $2 cannot be read: it is not base64"
      export "$1=$value"
      ;;
    404)
      IFS=/ read -r _ project _ secret _ <<<"$2"
      [[ "${3:-}" == optional ]] ||
        fail 1 "secret $2 has no value; add one: gcloud secrets versions add $secret --project=$project --data-file=-"
      printf 'bootstrap: secret %s has no value and is left out\n' "$2"
      ;;
    403) fail 1 "secret $2 may not be read by this host's account; it needs roles/secretmanager.secretAccessor on it" ;;
    *) fail 1 "secret $2 cannot be read: Secret Manager answers $code" ;;
  esac
}
if [[ -n "${SLIPWAY_SECRETS:-}" && -z "${SLIPWAY_BOOTSTRAP_ONLY:-}" ]]; then
  authorize 'secrets'
  while read -r variable version need; do
    read_secret "$variable" "$version" "$need"
  done <<<"$SLIPWAY_SECRETS"
fi

# Become the launcher.
trap - TERM INT
rm -f "$errors"
if [[ -n "${SLIPWAY_BOOTSTRAP_ONLY:-}" ]]; then
  printf '%s\n' "$bundle" "$environment/bin/python"
  exit 0
fi
cd "$bundle"
unset PYTHONDONTWRITEBYTECODE # compiled imports are half of a start
exec "$environment/bin/python" -m training.launch run_spec.yaml --host-dir "$SLIPWAY_HOST_DIR" \
  --cache-dir "$SLIPWAY_CACHE_DIR" ${SLIPWAY_START_AGAIN:+--start-again}
