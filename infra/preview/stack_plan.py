"""What a stack will be and whether it may be, decided once: `pulumi preview`, `slipway preview` and `up` ask here.

Owns the order, which no target can leave: vocabulary, run spec, facts, limits, placeholder, whether it fits, what the
target sees where it runs, what hosts install. Refuses to own any of these, and how a plan is declared
(infra/targets/<target>/declare.py, which knows no price). Reads files, writes nothing, asks nobody but the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

from infra.host_software.derive import HostSoftware, host_software
from infra.names import placeholder_problem
from infra.preview import limits, stack_facts, vocabulary
from infra.preview.fit import gate, judge, lookup
from infra.preview.fit.compiler import CompileLimits, Progress
from infra.preview.fit.judge import Ask
from infra.preview.stack_facts import StackFacts
from infra.runs import records, run_data, run_plan
from infra.stack_file.cloud_settings import CloudSettings
from infra.stack_file.settings import FitCheck, Owned, Settings, SettingsError, StackSettings
from infra.stack_file.terms import Terms
from infra.targets import registry
from infra.targets.contract import PaidContract, TargetContract
from infra.targets.places import in_bucket
from training.run_spec import RunSpec


@dataclass(frozen=True)
class StackPlan[S: StackSettings]:
    """`notices` is what a preview says of it, line by line."""

    settings: S
    notices: tuple[str, ...]


@dataclass(frozen=True)
class TrainingPlan[S: Settings](StackPlan[S]):
    """`facts` is None for a stack that buys nothing."""

    spec: RunSpec
    software: HostSoftware
    facts: StackFacts | None


@overload
def decide[S: Settings](settings: S, buying: bool = False, progress: Progress | None = None) -> TrainingPlan[S]: ...
@overload
def decide[S: StackSettings](settings: S, buying: bool = False, progress: Progress | None = None) -> StackPlan[S]: ...
def decide(settings: StackSettings, buying: bool = False, progress: Progress | None = None) -> StackPlan[Any]:
    """Raises SettingsError for what cannot work; `buying` refuses what a preview only says.

    Without `progress` nothing is compiled, and a fit that nobody has asked about yet stays unknown.
    """
    if not isinstance(settings, Settings):
        seen = registry.of(settings.target).notices(settings, None)
        return StackPlan(settings, (*seen, *_placeholder(settings, buying)))
    target = registry.of(settings.target)
    _check_whole(settings, target)
    vocabulary.check(settings)
    spec = run_plan.of_stack(settings)
    facts, warnings, lines = None, _placeholder(settings, buying), ()
    if isinstance(settings, Terms) or settings.row.platform in judge.JUDGED:
        fit = stack_facts.fit_of(settings, spec, _ask(settings, progress))
        lines = (f"fit: {fit}",)
        if isinstance(settings, Terms):
            facts = stack_facts.of(settings, spec, fit)
            lines = facts.lines()
            warnings = (*limits.check(settings, facts.cost, buying), *warnings)
        warnings += gate.gate(settings, fit.verdict, buying)
    conflict = None if in_bucket(spec.output_directory) else records.conflict(records.read(spec), spec)
    if conflict:
        raise SettingsError(conflict)
    seen = (*target.notices(settings, spec), *run_data.notices(settings, spec))
    software = host_software(settings, spec)
    notices = (*lines, *seen, *software.notices, *warnings)
    return TrainingPlan(settings, notices, spec, software, facts)


def facts_of(settings: StackSettings) -> StackFacts | None:
    """The facts alone, of a stack that may pass its limits; None for one that buys nothing."""
    if not isinstance(settings, Terms):
        return None
    spec = run_plan.of_stack(settings)
    return stack_facts.of(settings, spec, stack_facts.fit_of(settings, spec, lookup.known))


def _check_whole(settings: Settings, target: TargetContract[Any, Any]) -> None:
    """Raises SettingsError for a target that has one half alone of what is paid for: its limits, or what is billed."""
    limited, billed = isinstance(settings, Terms), isinstance(target, PaidContract)
    paid = f"stacks of target {target.name} are paid for, but"
    if limited and not billed:
        raise SettingsError(
            f"{paid} it does not say what is billed, so nobody would find what a killed `up` leaves; make its contract "
            f"a PaidContract (docs/adding-a-target.md)"
        )
    if not limited and (billed or isinstance(settings, Owned)):
        raise SettingsError(f"{paid} their settings have no limits; make them Terms (docs/adding-a-target.md)")


def _ask(settings: Settings, progress: Progress | None) -> Ask:
    if progress is None or settings.fit is FitCheck.UNCHECKED:
        return lookup.known
    limits = CompileLimits(timeout_s=settings.fit_timeout_s)
    return lambda request: lookup.settle(request, limits, progress)


def _placeholder(settings: StackSettings, buying: bool) -> tuple[str, ...]:
    if not isinstance(settings, CloudSettings):
        return ()
    problem = placeholder_problem(settings.project, settings.stack)
    if problem and buying:
        raise SettingsError(problem)
    return (problem,) if problem else ()
