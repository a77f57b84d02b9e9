"""What this machine has not is no test here: root and FUSE, without which nothing is mounted (docs/data.md)."""

from __future__ import annotations

import os
from pathlib import Path

collect_ignore = [] if os.geteuid() == 0 and Path("/dev/fuse").exists() else ["test_mounted.py"]
