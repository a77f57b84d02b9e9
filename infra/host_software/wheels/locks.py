"""Where the hosts' locks lie: `training/locks/pylock.<platform>-<channel>.toml` (PEP 751), written by `make lock`.

Refuses to own what is in them (infra/host_software/wheels/selection.py): a preview names a lock and parses none.
"""

from __future__ import annotations

from pathlib import Path

from infra.paths import TRAINING

PLATFORMS = ("cpu", "tpu", "gpu")
STABLE, NIGHTLY = "stable", "nightly"
CHANNELS = (STABLE, NIGHTLY)


class LockError(ValueError):
    """A lock or an overlay is missing or cannot be used; the message says what to do."""


def lock_path(platform: str, channel: str, training: Path = TRAINING) -> Path:
    return training / "locks" / f"pylock.{platform}-{channel}.toml"


def bootstrap_lock(training: Path = TRAINING) -> Path:
    """The lock of uv itself, which installs all others."""
    return training / "locks" / "pylock.bootstrap.toml"


def read_lock(path: Path) -> bytes:
    """The bytes of the lock. Raises LockError, which names the command that writes it, where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        channel = f" CHANNEL={NIGHTLY}" if NIGHTLY in path.name else ""
        raise LockError(f"there is no training/locks/{path.name}; make it with: make lock{channel}") from None
