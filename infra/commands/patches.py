"""`slipway patches check`: do our patches fit another version of an upstream package, or has upstream taken them?"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Annotated

import typer
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from infra.host_software.wheels.patches import PatchError, PatchOutcome, PatchState, load_all, newest, state_of

app = typer.Typer(no_args_is_help=True)


@app.callback()
def patches() -> None:
    """Patches of upstream packages, in training/patches/."""


@app.command()
def check(
    wheel: Annotated[str, typer.Argument(help="`maxtext==0.2.6`, from the package index, or a .whl file.")],
) -> None:
    """What each patch is to a wheel: applies, drifted, or landed upstream. Exit code 1 if one has drifted."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(wheel) if wheel.endswith(".whl") else _download(wheel, Path(scratch))
        states = _states(path, Path(scratch) / "unpacked")
    for state in states:
        typer.echo(str(state))
    if any(state.state is PatchOutcome.DRIFTED for state in states):
        raise typer.Exit(1)


def _download(requirement: str, directory: Path) -> Path:
    """The wheel of `name==version` from the package index that pip is set up for."""
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement:
        raise PatchError(f"{requirement!r} is neither <package>==<version> nor a .whl file") from None
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    done = subprocess.run(
        [*command, "--dest", str(directory), str(parsed)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr.strip()]
        raise PatchError(f"pip cannot download {parsed}: {errors[-1]}")
    (wheel,) = directory.glob("*.whl")
    return wheel


def _states(wheel: Path, unpacked: Path) -> list[PatchState]:
    try:
        package, version, _, _ = parse_wheel_filename(wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(unpacked)
    except (InvalidWheelFilename, zipfile.BadZipFile, OSError) as error:
        raise PatchError(f"{wheel} cannot be read as a wheel: {error}") from None
    return state_of(newest(package, str(version), load_all()), unpacked)
