"""Secrets that hosts read at their start, by name: as which variable, and whether training can do without. Pure.

Owns the known ones, and which names would change what a host runs. Refuses to own values, which a host reads itself
(training/bootstrap.sh), and where they are kept (infra/targets/foundation/components/secrets.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class HostSecret:
    """`version` is Secret Manager's name of it; an optional one that has no value yet is left out."""

    variable: str
    version: str
    optional: bool = False

    @property
    def line(self) -> str:
        """As bootstrap.sh reads it."""
        return f"{self.variable} {self.version}{' optional' * self.optional}"


# Without W&B's key a run is merely not shown there.
_KNOWN = {"wandb": ("WANDB_API_KEY", True), "huggingface": ("HF_TOKEN", False)}

# Variables by which a host, its shell, Python, JAX or Google's clients are told what to do.
_TAKEN = re.compile(
    r"(SLIPWAY|GCE|GOOGLE|CLOUD|CLOUDSDK|JAX|XLA|TPU|LIBTPU|MEGASCALE|NCCL|CUDA|PYTHON|LD|BASH|UV|TENSORSTORE|FSSPEC"
    r"|GCSFS|CURL|SSL|LC)_.*|M_.*|PYTHON.*|BASH.*|.*_PROXY|PATH|HOME|USER|LOGNAME|SHELL|PWD|IFS|ENV|TMPDIR|LANG|TZ"
    r"|NODE_RANK|NNODES|RANK|MASTER_ADDR|MASTER_PORT|JOBSET_NAME|JOB_COMPLETION_INDEX"
)


def host_secret(name: str, version: str) -> HostSecret:
    variable, optional = _KNOWN.get(name, (name.upper().replace("-", "_"), False))
    return HostSecret(variable, version, optional)


def problem(name: str) -> str | None:
    """Why hosts cannot read a secret of this name; None where they can."""
    variable = host_secret(name, "").variable
    if not _TAKEN.fullmatch(variable):
        return None
    return f"hosts would read it as {variable}, which they need for something else; give the secret another name"
