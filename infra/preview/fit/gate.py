"""What a verdict means for a preview and for `up`. Pure.

Out of memory, or a refusal of the compiler's, stops both; what is unknown stops `up`, unless the stack says otherwise.
"""

from __future__ import annotations

from infra.preview.fit import judge, levers
from infra.preview.fit.train_step import TrainStep
from infra.preview.fit.verdict import FitVerdict
from infra.stack_file.settings import FitCheck, Settings, SettingsError
from infra.stack_file.terms import where


def gate(settings: Settings, verdict: FitVerdict, buying: bool) -> tuple[str, ...]:
    """What a preview should add. Raises SettingsError for a step that cannot run, or that `buying` needs to know."""
    if verdict.fits is False:
        changes = _changes(settings, verdict)
        raise SettingsError(
            f"{verdict.model} does not fit {verdict.topology}: {verdict.reason}; {changes} in {where(settings)}"
        )
    if verdict.fits or settings.fit is FitCheck.UNCHECKED:
        return ()
    compiled = settings.row.platform in judge.JUDGED
    otherwise = f"run `slipway fit {settings.stack}`, or " if compiled else "if you know that it does, "
    problem = (
        f"whether {verdict.model} fits is unknown: {verdict.reason}; {otherwise}write `slipway:fit: unchecked` in "
        f"{where(settings)}"
    )
    if buying:
        raise SettingsError(problem)
    return (f"`up` will refuse: {problem}",)


def _changes(settings: Settings, verdict: FitVerdict) -> str:
    if verdict.peak_gib is None:
        return f"change {', '.join(verdict.keys)}"
    ranked = " | ".join(lever.title for lever in levers.ranked(TrainStep(settings), verdict))
    return f"the largest saving first (`slipway fit {settings.stack} --levers` asks the compiler of each): {ranked}"
