#!/usr/bin/env bash
# By root before each start of the training: the accelerators, and what an earlier user of them has left, are its account's.
set -euo pipefail
for file in /dev/accel* /dev/vfio/* /tmp/libtpu_lockfile /tmp/tpu_logs; do
  if [[ -e "$file" ]]; then
    chown slipway "$file"
  fi
done
