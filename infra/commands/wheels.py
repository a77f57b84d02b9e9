"""`slipway wheels`: build a wheelhouse on this machine, push it to where hosts read it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra.commands.terminal import fail, note_storage_of
from infra.host_software import wheelhouses
from infra.host_software.derive import wheelhouse as wheelhouse_of
from infra.host_software.wheels.locks import CHANNELS, PLATFORMS, STABLE, LockError
from infra.host_software.wheels.python_made_here import PythonPackError, make_archive
from infra.host_software.wheels.pythons import LOCKED, locked_python
from infra.host_software.wheels.selection import GLIBC_MINOR
from infra.paths import ARTIFACTS, PYTHONS, ROOT, stack_file
from infra.stack_file import settings as stack_settings

app = typer.Typer(no_args_is_help=True)


@app.callback()
def wheels() -> None:
    """What hosts install, without any package index."""


@app.command("build")
def build_command(
    platform: Annotated[str, typer.Option(help=f"One of {', '.join(PLATFORMS)}.")],
    channel: Annotated[str, typer.Option(help=f"One of {', '.join(CHANNELS)}.")] = STABLE,
    overlay: Annotated[Path | None, typer.Option(help="Directory of wheels that replace locked ones.")] = None,
    python_archive: Annotated[
        str | None, typer.Option(help=f"A relocatable CPython 3.12 as tar.gz, or `{LOCKED}`: the locked release.")
    ] = None,
    mounts: Annotated[bool, typer.Option("--mounts", help="With gcsfuse, for hosts that mount a bucket.")] = False,
    expect: Annotated[str | None, typer.Option(hidden=True, help="The id that a preview has shown.")] = None,
    push_to: Annotated[str | None, typer.Option("--push", help="Also push it to this store.")] = None,
) -> None:
    """Fetch, patch and lay out every wheel of a platform; what is there already is not fetched again."""
    for name, value, allowed in (("platform", platform, PLATFORMS), ("channel", channel, CHANNELS)):
        if value not in allowed:
            fail(f"{name} is '{value}'; give one of: {', '.join(allowed)}")
    note_storage_of(push_to or "")
    try:
        inputs = wheelhouses.inputs_of(platform, channel, overlay, python_archive, mounts)
        if expect and inputs.id != expect:
            fail(f"locks, patches or overlay changed since the preview ({expect} is now {inputs.id}); run it again")
        wheelhouses.build_here(inputs)
        if push_to:
            wheelhouses.push_from_here(inputs.id, push_to)
    except wheelhouses.ERRORS as error:
        fail(str(error))


@app.command("push")
def push_command(
    to: Annotated[
        str, typer.Argument(help="A stack, or where to: a directory or a place in a bucket: gs://... or s3://...")
    ],
    wheelhouse: Annotated[str | None, typer.Argument(help="Its id; for a stack, the stack's own.")] = None,
) -> None:
    """Upload what is absent, verified by checksum; safe to interrupt and to run again."""
    try:
        if stack_file(to).is_file():
            settings = stack_settings.from_file(to)
            store_uri = settings.places.artifacts
            note_storage_of(store_uri)
            inputs = wheelhouse_of(settings, settings.row.platform)
            wheelhouses.ensure_built(inputs)
            wheelhouses.push_from_here(inputs.id, store_uri)
            return
        note_storage_of(to)
        known = sorted(path.name for path in (ARTIFACTS / "wheelhouses").glob("*"))
        if wheelhouse not in known:
            fail(f"name a wheelhouse to push; built here: {', '.join(known) or 'none (slipway wheels build)'}")
        wheelhouses.push_from_here(wheelhouse, to)
    except wheelhouses.ERRORS as error:
        fail(str(error))


@app.command("lock")
def lock_command() -> None:
    """Write training/locks/made.sums, what hosts may install besides what locks name; after a change of patches."""
    try:
        objects = wheelhouses.make_here()
    except wheelhouses.ERRORS as error:
        fail(str(error))
    for name in sorted(objects):
        print(name)


@app.command("python")
def python_command(
    out: Annotated[Path, typer.Option(help="The directory that the archive is made in.")] = PYTHONS,
    glibc_minor: Annotated[int, typer.Option(help="Hosts have at least glibc 2.<this>.")] = GLIBC_MINOR,
) -> None:
    """Make an archive of this machine's Python for hosts, where the locked release cannot be reached."""
    try:
        locked, archive = locked_python(), make_archive(out, glibc_minor).resolve()
    except (LockError, PythonPackError, OSError) as error:
        fail(str(error))
    named = archive.relative_to(ROOT) if archive.is_relative_to(ROOT) else archive
    print(f"{named} ({archive.stat().st_size / 1e6:.0f} MB), which is not the locked release ({locked})")
    print(f"a stack takes it with: slipway:python_archive: {named}")
