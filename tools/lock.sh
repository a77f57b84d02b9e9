#!/usr/bin/env bash
# Resolves what operators and hosts install and writes the locks, with a hash for every file.
#
#   tools/lock.sh stable   uv.lock, training/uv.lock, training/locks/pylock.<platform>-stable.toml, pylock.bootstrap.toml
#                          training/locks/python.toml (the Python of hosts that have none),
#                          training/maxtext_schema.json and training/model_shapes.json
#   tools/lock.sh nightly  training/locks/pylock.<platform>-nightly.toml, from the vendor's nightly index
#
# SLIPWAY_NIGHTLY_INDEX  another index for nightly builds of jax, jaxlib and libtpu
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
uv=$root/.venv/bin/uv
channel=${1:-stable}
platforms=(cpu tpu gpu)
# docs.jax.dev, "Installation": where nightly wheels of jax, jaxlib and libtpu are published
nightly_index=${SLIPWAY_NIGHTLY_INDEX:-https://us-python.pkg.dev/ml-oss-artifacts-published/jax/simple/}

die() { printf 'error: %s\n' "$*" >&2; exit 1; }

stable() {
  local platform
  "$uv" lock
  "$uv" lock --project training
  for platform in "${platforms[@]}"; do
    "$uv" export --quiet --frozen --no-dev --no-emit-project --no-header --project training --extra "$platform" \
      --format pylock.toml --output-file "training/locks/pylock.$platform-stable.toml"
  done
  "$uv" export --quiet --frozen --only-group bootstrap --no-emit-project --no-header --project training \
    --format pylock.toml --output-file training/locks/pylock.bootstrap.toml
  .venv/bin/python -m infra.host_software.wheels.python_lock
  .venv/bin/slipway wheels lock
  python=$(tools/host-env.sh)
  "$python" -m training.maxtext_schema >training/maxtext_schema.json.new
  mv training/maxtext_schema.json.new training/maxtext_schema.json
  "$python" -m training.model_shapes >training/model_shapes.json.new
  mv training/model_shapes.json.new training/model_shapes.json
}

nightly() {
  local platform name
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for platform in "${platforms[@]}"; do
    name=pylock.$platform-nightly.toml
    # The nightly index serves JAX's own packages, whose nightlies are pre-releases; the rest stays with releases.
    printf '%s>=0.0.dev0\n' jax jaxlib >"$work/nightly.txt"
    if [[ $platform == tpu ]]; then echo 'libtpu>=0.0.dev0' >>"$work/nightly.txt"; fi
    "$uv" pip compile --quiet --no-header --no-config --format pylock.toml --generate-hashes --python-version 3.12 \
      --python-platform x86_64-manylinux_2_35 --extra "$platform" --prerelease explicit \
      --index "$nightly_index" --index-strategy first-index --output-file "$work/$name" training/pyproject.toml "$work/nightly.txt" 2>"$work/errors" || {
      message=$(tr -s ' \n' ' ' <"$work/errors" | cut -c1-300)
      die "no nightly lock for $platform: $nightly_index cannot be used ($message); reach it, or set SLIPWAY_NIGHTLY_INDEX"
    }
    mv "$work/$name" "training/locks/$name"
  done
}

case $channel in
  stable | nightly) "$channel" ;;
  *) die "channel is '$channel'; give stable or nightly" ;;
esac
