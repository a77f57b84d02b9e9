"""training/bootstrap.sh as this machine calls it: the command and the variables it reads."""

from __future__ import annotations

from dataclasses import dataclass

from infra.paths import ROOT


@dataclass(frozen=True)
class Installation:
    """What a host installs: a bundle of the store `artifacts`, below `root`, which hosts of this machine share."""

    artifacts: str
    bundle: str
    root: str

    @property
    def directory(self) -> str:
        """Where bootstrap.sh lays the bundle; the parent of its training/."""
        return f"{self.root}/bundles/{self.bundle}"

    @property
    def variables(self) -> dict[str, str]:
        return {"SLIPWAY_ARTIFACTS": self.artifacts, "SLIPWAY_BUNDLE": self.bundle, "SLIPWAY_ROOT": self.root}

    @property
    def environment_only(self) -> dict[str, str]:
        """Start no host: where the bundle lies and its Python are then the last two lines of standard output."""
        return self.variables | {"SLIPWAY_HOST_DIR": f"{self.root}/operator", "SLIPWAY_BOOTSTRAP_ONLY": "1"}


COMMAND = ("bash", str(ROOT / "training" / "bootstrap.sh"))
