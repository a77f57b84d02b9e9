"""`slipway fit`: whether a train step fits a slice, how fast it could be, and what would make it fit.

Owns the command and what it prints. Unlike a preview it makes the compiler's environment where there is none. Refuses
to own verdicts, estimates and levers (infra/preview/fit/).
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
import yaml

from infra.commands import tables
from infra.commands.terminal import fail
from infra.hardware import find
from infra.preview.fit import fit_table, interactive_fit, levers, roofline
from infra.preview.fit import judge as judge_of_fit
from infra.preview.fit.compiler import CompileLimits
from infra.preview.fit.train_step import TrainStep, of_accelerator, of_stack
from infra.preview.fit.verdict import FitVerdict
from infra.stack_file.settings import SettingsError

DEFAULTS = CompileLimits()


def fit(
    stack: Annotated[str, typer.Argument(help="A stack: `v6e-32` is stacks/Pulumi.v6e-32.yaml.")] = "",
    accelerator: Annotated[str, typer.Option(help="Instead of a stack: a row of `slipway hardware`.")] = "",
    slices: Annotated[int, typer.Option(min=1, help="With --accelerator: how many slices.")] = 1,
    changed: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A MaxText field of `training:`.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All stacks with accelerators, in one table.")] = False,
    ask_levers: Annotated[bool, typer.Option("--levers", help="What would fit, each asked of the compiler.")] = False,
    judge: Annotated[bool, typer.Option("--judge", help="Estimates against published measurements.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object (with --all and --judge a list).")] = False,
    ship: Annotated[bool, typer.Option(hidden=True, help="With --all or --judge: write what is committed.")] = False,
    timeout_s: Annotated[float, typer.Option(help="Of one compile.")] = DEFAULTS.timeout_s,
    memory_gib: Annotated[float, typer.Option(help="Of one compile.")] = DEFAULTS.memory_gib,
) -> None:
    """Compile the train step for TPUs or GPUs that are not here, and say whether it fits. Exit code 1: it does not."""
    if [bool(stack), bool(accelerator), every, judge].count(True) != 1:
        fail("name one of: a stack, --accelerator, --all, --judge")
    if ((every or judge) and (changed or ask_levers)) or (slices > 1 and not accelerator):
        fail("--slices goes with --accelerator, --set and --levers with a stack or --accelerator")
    limits = CompileLimits(timeout_s, memory_gib)
    if every or judge:
        table = fit_table.all_stacks(limits, ship) if every else fit_table.judged(limits, ship)
        shown = tables.columns(table.columns, table.rows)
        typer.echo(table.json() if as_json else tables.plain(shown, dispensable=fit_table.DISPENSABLE))
        raise typer.Exit(0 if table.good else 1)
    overrides = _overrides(changed or [])
    step = of_stack(stack, overrides) if stack else of_accelerator(find(accelerator), slices, overrides)
    verdict = interactive_fit.answer(step, limits)
    tried = levers.ranked(step, verdict) if ask_levers else ()
    answers = [(lever, interactive_fit.answer(lever.step, limits)) for lever in tried]
    typer.echo(_json(step, verdict, answers) if as_json else _text(step, verdict, answers))
    raise typer.Exit(1 if verdict.fits is False else 0 if verdict.fits else 3)


def _overrides(changed: list[str]) -> dict[str, Any]:
    overrides: dict[str, Any] = {}
    for text in changed:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise SettingsError(f"--set is {text!r}; write --set KEY=VALUE, like --set per_device_batch_size=2")
        try:
            overrides[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise SettingsError(f"--set {key}: {value!r} is not a YAML value") from None
    return overrides


def _text(step: TrainStep, verdict: FitVerdict, tried: list[tuple[levers.Lever, FitVerdict]]) -> str:
    lines = [f"{step.title}: {_sentence(verdict)}"]
    estimate = roofline.estimate(verdict, step.row, step.remat_policy)
    if estimate:
        lines += [f"  {estimate}", f"  at best each takes: {', '.join(estimate.assumptions)}"]
    lines += [
        f"  sends {sent.gib:.2f} GiB per device and step along {sent.axis} ({sent.network.upper()}, {sent.operation})"
        for sent in verdict.traffic
        if sent.gib >= 0.005
    ]
    lines += [f"  {lever.title}: {_sentence(answer)}" for lever, answer in tried]
    if verdict.fits is False and verdict.peak_gib and not tried:
        lines += [f"  try: {lever.title}" for lever in levers.ranked(step, verdict)]
    return "\n".join(lines)


def _sentence(verdict: FitVerdict) -> str:
    return ("fits, " if verdict.fits else "") + judge_of_fit.said(verdict)


def _json(step: TrainStep, verdict: FitVerdict, tried: list[tuple[levers.Lever, FitVerdict]]) -> str:
    estimate = roofline.estimate(verdict, step.row, step.remat_policy)
    document = asdict(verdict)
    document["estimate"] = estimate and {
        "step_s": estimate.step_s, "bound": estimate.bound, "mfu": estimate.mfu, "seconds": estimate.seconds,
    }  # fmt: skip
    document["levers"] = [{"lever": lever.title, **asdict(answer)} for lever, answer in tried]
    return json.dumps(document, indent=1)
