"""`make up` on a fresh clone with an empty HOME and empty caches, to the final summary."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

from bench.record import Figure, figure
from infra.paths import ROOT, WORK

# What reaches registries and finds Python; everything else of the caller's environment stays behind.
_KEPT = re.compile(
    r"^(PATH|LANG|LC_ALL|TERM|SSL_CERT_\w+|(https?|no|all)_proxy|GOPROXY|GOFLAGS|PYENV_ROOT|PIP_(INDEX_URL|CERT)|UV_INDEX\w*)$",
    re.I,
)


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        home, clone = Path(name) / "home", Path(name) / "clone"
        home.mkdir()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        kept = {key: value for key, value in os.environ.items() if _KEPT.match(key)}
        start = time.monotonic()
        up = subprocess.run(
            ["make", "up"],
            cwd=clone,
            env=kept | {"HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        minutes = (time.monotonic() - start) / 60
        (WORK / "fresh_clone.log").write_text(up.stdout)
        if up.returncode:
            raise RuntimeError("`make up` failed in a fresh clone; its output is in .slipway/fresh_clone.log")
        built = re.search(r"Pulumi engine .* ready: .* in (\d+) s", up.stdout)
        left = subprocess.run(
            ["git", "status", "--short"], cwd=clone, capture_output=True, text=True, check=True
        ).stdout
        if left:
            raise RuntimeError(f"`make up` left changes in the clone: {left}")
        subprocess.run(["make", "destroy"], cwd=clone, env=kept | {"HOME": str(home)}, capture_output=True, check=True)
        # Go's module cache is read-only; without this the directory cannot be removed.
        subprocess.run(["chmod", "-R", "u+w", name], check=True)
    return [
        figure("fresh_clone_make_up", [minutes], "min", "<= 6"),
        figure("fresh_clone_engine_build", [int(built[1]) / 60 if built else 0.0], "min", "<= 5"),
    ]
