"""A host's environment from a wheelhouse in a directory, against `pip install` of the same lock into a fresh venv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.record import Figure, figure
from infra.artifacts.layout import bundle_key
from infra.host_software import wheelhouses
from infra.host_software.bundle import BundleContents, collect
from infra.host_software.installation import COMMAND, Installation
from infra.host_software.wheels.locks import STABLE, lock_path
from infra.host_software.wheels.selection import LockedFile, locked_files
from infra.paths import ARTIFACTS, TRAINING, UV, WORK

_REPETITIONS = 5
_TPU_EXTRA = "maxtext[tpu]==0.2.5"


def figures() -> list[Figure]:
    environment = wheelhouses.environment()
    wheels = wheelhouses.inputs_of("cpu", STABLE, None, None)
    bundle = Path(environment.sources).name
    first: list[float] = []
    second: list[float] = []
    pip: list[float] = []
    with tempfile.TemporaryDirectory(dir=WORK) as name:
        work = Path(name)
        root, venv = work / "installed", work / "venv"
        requirements = work / "requirements.txt"
        requirements.write_text(
            "".join(f"{file.package}=={file.version} --hash=sha256:{file.sha256}\n" for file in _locked("cpu"))
        )

        def pips() -> None:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            command = [venv / "bin" / "pip", "install", "--quiet", "--require-hashes", "--no-deps", "-r", requirements]
            subprocess.run([str(part) for part in command], check=True)

        for repetition in range(_REPETITIONS + 1):  # the first fills both caches
            shutil.rmtree(root / "env", ignore_errors=True)
            shutil.rmtree(venv, ignore_errors=True)
            times = (
                _seconds(lambda: _bootstrap(bundle, root)),
                _seconds(lambda: _bootstrap(bundle, root)),
                _seconds(pips),
            )
            if repetition:
                for values, value in zip((first, second, pip), times, strict=True):
                    values.append(value)
        tpu_set = _tpu_set(work)
    contents = BundleContents("x" * 4096, wheels.id, lock_path("cpu", STABLE))
    hashing = [_seconds(lambda: collect(TRAINING, contents).hash) for _ in range(_REPETITIONS)]
    archive = (ARTIFACTS / bundle_key(bundle)).stat().st_size
    return [
        figure("bootstrap_of_pip_install", [a / b for a, b in zip(first, pip, strict=True)], "x", "<= 0.125"),
        figure("bootstrap", first, "s", ""),
        figure("pip_install", pip, "s", ""),
        figure("bootstrap_again", second, "s", "<= 1"),
        figure("bundle_size", [archive / 2**20], "MiB", "<= 1"),
        figure("bundle_hashing", hashing, "s", "<= 0.1"),
        tpu_set,
    ]


def _bootstrap(bundle: str, root: Path) -> None:
    variables = Installation(str(ARTIFACTS), bundle, str(root)).environment_only
    subprocess.run(COMMAND, env=os.environ | variables, stdout=subprocess.DEVNULL, check=True)


def _locked(platform: str) -> tuple[LockedFile, ...]:
    return locked_files(lock_path(platform, STABLE))


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def _tpu_set(work: Path) -> Figure:
    """Bytes of files in a fresh environment: what TPU hosts install, against what MaxText's own extra asks for."""
    sizes = [
        _installed_bytes(work / name, requirements)
        for name, requirements in (
            ("ours", [f"{file.package}=={file.version}" for file in _locked("tpu")]),
            ("theirs", [_TPU_EXTRA]),
        )
    ]
    return figure("tpu_set_of_maxtext_tpu", [sizes[0] / sizes[1]], "x", "<= 0.65", bytes=sizes)


def _installed_bytes(environment: Path, requirements: list[str]) -> int:
    subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, environment], check=True)
    command = [str(UV), "pip", "install", "--quiet", "--python", str(environment / "bin" / "python"), *requirements]
    subprocess.run(command, check=True)
    return sum(path.stat().st_size for path in environment.rglob("*") if path.is_file() and not path.is_symlink())
