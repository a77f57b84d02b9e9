"""`slipway data prepare`: starts training.data.prepare in the environment that hosts have."""

from __future__ import annotations

import os

import typer

from infra.commands.terminal import fail
from infra.host_software import wheelhouses

app = typer.Typer(no_args_is_help=True)


@app.callback()
def data() -> None:
    """Turn text into what training reads."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def prepare(context: typer.Context) -> None:
    """Text or JSON lines to shuffled records, a held-out split, a tokenizer and a manifest; `--help` lists options."""
    try:
        environment = wheelhouses.environment()
    except wheelhouses.ERRORS as error:
        fail(str(error))
    code = os.environ | {"PYTHONPATH": environment.sources}
    os.execve(environment.python, [environment.python, "-P", "-m", "training.data.prepare", *context.args], code)
