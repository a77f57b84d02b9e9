#!/usr/bin/env bash
# Makes the hosts' environment with what tests and benchmarks need on top, and prints its Python.
# Apart from the environments that hosts use (.slipway/env/<lock hash>), which never hold test packages.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
environment=$root/.slipway/env/dev
stamp=$environment/.lock-hash
hash=$(sha256sum <"$root/training/uv.lock")

if [[ ! -f $stamp || $(<"$stamp") != "$hash" ]]; then
  UV_PROJECT_ENVIRONMENT=$environment "$root/.venv/bin/uv" sync --quiet --frozen --compile-bytecode --extra cpu \
    --group dev --project "$root/training" >&2
  printf '%s' "$hash" >"$stamp"
fi
printf '%s\n' "$environment/bin/python"
