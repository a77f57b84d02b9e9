"""`slipway data`: prepares text in the environment that hosts have, and pushes what is prepared into a bucket."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from infra.artifacts.push import Pushed
from infra.artifacts.store import StoreError
from infra.commands.terminal import fail, note_storage_of
from infra.host_software import wheelhouses
from infra.runs import stored_data
from infra.targets import places
from training.data.identity import DataError

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """Turn text into what training reads, and bring it to hosts."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def prepare(context: typer.Context) -> None:
    """Text or JSON lines to shuffled records, a held-out split, a tokenizer and a manifest; `--help` lists options."""
    try:
        environment = wheelhouses.environment()
    except wheelhouses.ERRORS as error:
        fail(str(error))
    code = os.environ | {"PYTHONPATH": environment.sources}
    os.execve(environment.python, [environment.python, "-P", "-m", "training.data.prepare", *context.args], code)


@app.command()
def push(
    directory: Annotated[Path, typer.Argument(help="What `slipway data prepare` has made.")],
    to: Annotated[str, typer.Argument(help="Below which place of a bucket: gs://bucket/path or s3://...")],
) -> None:
    """Upload what is absent below its content, verified by checksum; safe to interrupt and to run again."""
    if not places.in_bucket(to) or places.problem(to):
        fail(f"'{to}' is no place in a bucket; give gs://bucket/path or s3://bucket/path, without '/' at its end")
    note_storage_of(to)

    def progress(key: str, done: Pushed) -> None:
        sent_bytes = done.uploaded_bytes + done.present_bytes
        print(f"{done.uploaded + done.present} files, {sent_bytes / 1e6:,.1f} MB: {key}", flush=True)

    try:
        url, done = stored_data.push_prepared(directory, to, progress)
    except (DataError, StoreError) as error:
        fail(str(error))
    print(
        f"{url}: {done.uploaded} files ({done.uploaded_bytes / 1e6:,.1f} MB) uploaded, {done.present} were there; "
        f"a stack trains on it with `slipway:data: {url}`"
    )
