"""training/bootstrap.sh as this machine calls it: the command and the variables it reads."""

from __future__ import annotations

from pathlib import Path


def command(source: str) -> list[str]:
    """`source` is the directory that holds training/."""
    return ["bash", str(Path(source) / "training" / "bootstrap.sh")]


def variables(source: str, env_root: str, uv: str) -> dict[str, str]:
    """What every call needs: where the sources are, where environments are made, and uv's path."""
    return {"SLIPWAY_SOURCE": source, "SLIPWAY_ENV_ROOT": env_root, "SLIPWAY_EXTRA": "cpu", "SLIPWAY_UV": uv}


def environment_only(source: str, env_root: str, uv: str) -> dict[str, str]:
    """Make the environment, start no host: its Python is then the last line of standard output."""
    own = {"SLIPWAY_HOST_DIR": str(Path(env_root) / "operator"), "SLIPWAY_BOOTSTRAP_ONLY": "1"}
    return variables(source, env_root, uv) | own
