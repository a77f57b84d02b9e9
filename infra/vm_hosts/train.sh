#!/usr/bin/env bash
# The service that trains: bootstrap.sh with the variables of this start.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
source "$here/variables.sh"
exec bash "$here/bootstrap.sh"
