"""What commands say on standard error: the one sentence that ends them, and what is asked instead of Google."""

from __future__ import annotations

import os
from typing import NoReturn

import typer

from infra import emulated
from infra.targets.places import S3_ENDPOINT, in_s3


def fail(message: str) -> NoReturn:
    """One sentence, exit code 2."""
    from rich.console import Console  # here: it costs every command 0.04 s, and most do not fail
    from rich.markup import escape

    Console(stderr=True).print(f"[red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    raise typer.Exit(2)


def note_substitute(variable: str) -> None:
    """Says what is asked instead of Google, where the variable names something."""
    for sentence in emulated.sentences({variable: os.environ.get(variable, "")}):
        typer.echo(f"note: {sentence}", err=True)


def note_storage_of(store: str) -> None:
    """The same of an artifact store, where it is in the cloud."""
    if store.startswith("gs://"):
        note_substitute(emulated.STORAGE)
    if in_s3(store) and (server := os.environ.get(S3_ENDPOINT)):
        typer.echo(f"note: {S3_ENDPOINT} is {server}: buckets of s3:// are that server's, not Amazon's", err=True)
