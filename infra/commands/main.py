"""The day-2 command `slipway`. Entry point: the only place here that prints and picks exit codes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from infra import emulated
from infra.commands import backend, doctor, emulate, fit, gc, hardware, orphans, patches, preview, stack, wheels
from infra.commands.terminal import fail
from infra.engine import wrapper
from infra.operate.hosts import OPEN, Hosts
from infra.operate.report import ABSENT, stack_report
from infra.operate.watch import cells, watch
from infra.paths import TOOLS, of_stack, stack_file
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import SettingsError
from infra.targets import registry

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Watch and steer what `pulumi up` has started.")
data_app = typer.Typer(no_args_is_help=True, help="Turn text into what training reads.")
app.add_typer(data_app, name="data")
app.add_typer(wheels.app, name="wheels")
app.add_typer(patches.app, name="patches")
app.add_typer(backend.app, name="backend")
app.add_typer(emulate.app, name="emulate")
app.add_typer(stack.app, name="stack")
app.command("preview")(preview.preview)
app.command("fit")(fit.fit)
app.command("doctor")(doctor.doctor)
app.command("hardware")(hardware.hardware)
app.command("gc")(gc.gc)
app.command("orphans")(orphans.orphans)

Stack = Annotated[str, typer.Argument(help="A stack: `local` is stacks/Pulumi.local.yaml.")]


def _open(stack: str) -> Hosts:
    try:
        target = stack_settings.from_file(stack).target
    except SettingsError as error:
        fail(str(error))
    if target not in OPEN:
        fail(
            f"stack '{stack}' is of target {target}, whose hosts this command does not reach yet; what is there says: "
            f"pulumi preview --stack {stack} --diff (docs/runbook.md)"
        )
    return OPEN[target](stack)


@app.command("watch")
def watch_command(stack: Stack) -> None:
    """Follow training until it ends; Ctrl-C leaves it running."""
    try:
        report = watch(_open(stack), Console())
    except KeyboardInterrupt:
        Console().print(
            f"\ntraining goes on; see it again with `slipway watch {stack}`, stop it with `slipway stop {stack}`",
            highlight=False,
        )
        raise typer.Exit(130) from None
    raise typer.Exit(0 if report.phase == "finished" else 1)


@app.command()
def status(stack: Stack, as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False) -> None:
    """The phase of the stack and of each host."""
    hosts = _open(stack)
    report = stack_report(stack, hosts.list())
    if as_json:
        typer.echo(json.dumps(report.to_json() | {"run_directory": str(hosts.run_directory() or "")}))
        return
    at = f", step {report.step} of {report.steps}" if report.step is not None else ""
    typer.echo(f"{stack}: {report.phase}{at}" + (f" ({report.reason})" if report.reason else ""))
    for host in report.hosts:
        typer.echo("  " + " · ".join(cell for cell in cells(host) if cell))
    if report.phase == ABSENT:
        typer.echo(f"  nothing is deployed; start it with: make up STACK={stack}")


@app.command()
def logs(
    stack: Stack,
    host: Annotated[int, typer.Option(help="Which host, from 0.")] = 0,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until the host ends.")] = False,
) -> None:
    """A host's log."""
    try:
        for line in _open(stack).logs(host, follow):
            typer.echo(line)
    except LookupError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


@app.command()
def stop(stack: Stack) -> None:
    """Save a checkpoint and end training; `start` resumes it."""
    hosts = _open(stack)
    if not any(host.record.process() for host in hosts.list()):
        fail(f"nothing of stack '{stack}' is running")
    with Console(stderr=True).status("stopping") as line:
        hosts.stop(line.update)
    report = stack_report(stack, hosts.list())
    typer.echo(f"{stack}: {report.phase} at step {report.step} of {report.steps}; resume with: slipway start {stack}")


@app.command()
def start(stack: Stack) -> None:
    """Start what is not running; training resumes at its last checkpoint."""
    hosts = _open(stack)
    if not hosts.list():
        fail(f"stack '{stack}' has no hosts; start them with: make up STACK={stack}")
    hosts.start()
    typer.echo(f"{stack}: started; follow it with: slipway watch {stack}")


@app.command()
def purge(stack: Stack, yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False) -> None:
    """Delete the checkpoints and metrics that `pulumi destroy` has kept."""
    hosts = _open(stack)
    if hosts.list():
        fail(f"stack '{stack}' is still deployed; first run: make destroy STACK={stack}")
    runs = of_stack(stack).runs
    if not runs.is_dir():
        typer.echo(f"{stack}: nothing is kept")
        return
    names = ", ".join(sorted(run.name for run in runs.iterdir()))
    if not yes:
        typer.confirm(f"delete {runs} ({names})?", abort=True)
    shutil.rmtree(runs)
    typer.echo(f"{stack}: deleted {names}")


@data_app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def prepare(context: typer.Context) -> None:
    """Text or JSON lines to shuffled records, a held-out split, a tokenizer and a manifest; `--help` lists options."""
    from infra.host_software import wheelhouses  # here: it costs every other command 0.3 s

    try:
        environment = wheelhouses.environment()
    except wheelhouses.ERRORS as error:
        fail(str(error))
    code = os.environ | {"PYTHONPATH": environment.sources}
    os.execve(environment.python, [environment.python, "-P", "-m", "training.data.prepare", *context.args], code)


def main() -> None:
    os.environ["PATH"] = os.pathsep.join([str(TOOLS), os.environ.get("PATH", "")])
    for sentence in _not_googles(sys.argv[1:]):
        typer.echo(f"note: {sentence}", err=True)
    app()


# Which services a command asks, by its first words. `doctor` has a finding instead; the engine's commands say it too.
_ASKS = {"orphans": (emulated.TPU,), "gc": (emulated.STORAGE,), "wheels": (emulated.STORAGE,)}


def _not_googles(words: Sequence[str]) -> list[str]:
    """What this command would ask of something else than Google; nothing where it stays on this machine."""
    variables = _ASKS.get(words[0] if words else "", ())
    if "--help" in words or (words[:1] != ["orphans"] and not any(_names_a_cloud(word) for word in words[1:])):
        return []
    return emulated.sentences({name: os.environ[name] for name in variables if name in os.environ})


def _names_a_cloud(word: str) -> bool:
    """`gs://bucket`, `--push=gs://bucket`, or a stack in the cloud."""
    if "gs://" in word:
        return True
    file = stack_file(word)
    about = registry.about(wrapper.stack_target(file.read_text(errors="replace"))) if file.is_file() else None
    return about is not None and about.in_the_cloud
