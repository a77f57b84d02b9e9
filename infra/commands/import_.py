"""`slipway import`: a job that people keep as a file, or flags that they keep as a string, as a stack has them.

Entry point: reads one file, writes one stack file, prints, picks the exit code. What becomes of each key:
infra/importing/.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from infra.commands.env import variables
from infra.commands.terminal import fail
from infra.host_software.wheels.locks import LockError
from infra.importing import flag_verdicts, vertex_job
from infra.importing.findings import ImportAccount, KeyFinding, Verdict
from infra.importing.vertex_job import ImportTerms
from infra.names import PLACEHOLDER_PROJECT
from infra.paths import stack_file
from infra.stack_file import jaxlib_flags
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import Settings
from infra.targets.host_variables import HostVariable
from training import gpu_environment
from training.xla_flags import XLA_FLAGS

app = typer.Typer(no_args_is_help=True)


@app.callback()
def import_() -> None:
    """What others have written, as a stack: a job of Vertex AI, or a string of XLA's flags."""


@app.command("vertex-json")
def vertex_json(
    file: Annotated[str, typer.Argument(help="JSON (comments and trailing commas too), or gcloud's YAML.")],
    project: Annotated[str, typer.Option(help="The Google Cloud project's id.")] = PLACEHOLDER_PROJECT,
    region: Annotated[str, typer.Option(help="Where, if no reservation in the file says it.")] = "",
    owner: Annotated[str, typer.Option(help="Who pays: a label of everything billed.")] = "",
    variant: Annotated[str, typer.Option(help="What follows the dot in the stack's name.")] = "",
    target: Annotated[str, typer.Option(help="Another kind of place than Vertex AI, like gke-gpu.")] = "",
    force: Annotated[bool, typer.Option("--force", help="Write over a stack file that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Write a stack file from a custom job of Vertex AI, and say of each key what became of it."""
    wanted = ImportTerms(target, project, owner, region, variant)
    made = vertex_job.imported(_read(file), Path(file).name, wanted, _of_hosts)
    path = stack_file(made.stack)
    if path.exists() and not force:
        fail(f"stacks/{path.name} is there already; write over it with --force, or give another --variant")
    path.write_text(made.text, encoding="utf-8")
    if as_json:
        typer.echo(json.dumps({
            "stack": made.stack,
            "file": f"stacks/{path.name}",
            "assumed": made.assumed,
            "findings": [asdict(finding) for finding in made.findings],
        }, indent=1))  # fmt: skip
        return
    typer.echo(_shown(made.findings))
    for sentence in made.assumed:
        typer.echo(f"assumed: {sentence}")
    typer.echo(f"stacks/{path.name} is written; see what it would cost: slipway preview {made.stack}")


@app.command("xla-flags", context_settings={"ignore_unknown_options": True})
def xla_flags(
    flags: Annotated[list[str], typer.Argument(metavar="STRING", help="As XLA_FLAGS has them.")],
    stack: Annotated[str, typer.Option(help="Against what its hosts get anyway; else those of A3 Mega.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Say of each flag of XLA whether the locked jaxlib has it, what replaces it, and whether hosts have it anyway."""
    hosts = _of_hosts(stack_settings.from_file(stack)) if stack else _of_a3_mega()
    account = ImportAccount()
    kept = flag_verdicts.judge(" ".join(flags), account, hosts, key="xla_flags")
    if as_json:
        typer.echo(json.dumps({
            "jaxlib": jaxlib_flags.of_locked_jaxlib().version,
            "left": " ".join(map(str, kept)),
            "findings": [asdict(finding) for finding in account.merged()],
        }, indent=1))  # fmt: skip
        return
    typer.echo(_shown(account.merged()))
    typer.echo(f"left to say: {' '.join(map(str, kept)) or 'nothing'}")


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}")
    except UnicodeDecodeError as error:
        fail(f"{file} is not UTF-8 text: {error.reason} at byte {error.start}; save it as UTF-8")


def _of_hosts(settings: Settings) -> Sequence[HostVariable]:
    try:
        return variables(settings)
    except LockError as error:
        fail(str(error))


def _of_a3_mega() -> Sequence[HostVariable]:
    flags = gpu_environment.flags(gpu_environment.TCPXO, jaxlib_flags.of_locked_jaxlib().version)
    return [HostVariable(XLA_FLAGS, f"{each.name}={each.value}", each.why) for each in flags]


def _shown(findings: Sequence[KeyFinding]) -> str:
    """A paragraph for each verdict, the contradictions first, which also say where they stand."""
    lines: list[str] = []
    for verdict in Verdict:
        own = [finding for finding in findings if finding.verdict is verdict]
        lines += [f"{verdict}:"] if own else []
        lines += [f"  {_line(finding, verdict is Verdict.CONTRADICTORY)}" for finding in own]
    return "\n".join(lines) or "nothing is in it"


def _line(finding: KeyFinding, with_place: bool) -> str:
    key = f" -> {finding.key}" if finding.key and finding.key != finding.part.partition("=")[0] else ""
    place = f" ({_where(finding.paths)})" if with_place and finding.paths else ""
    return f"{finding.part}{key}{place}{': ' if finding.why else ''}{finding.why}"


def _where(paths: Sequence[str]) -> str:
    """The first, and how many more: env has two to a variable, and pools mostly say the same."""
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
