"""What a verdict means for a preview and for `up`. Pure.

Out of memory, or a refusal of the compiler's, stops both; what is unknown stops `up`, unless the stack says otherwise.
"""

from __future__ import annotations

from infra.preview.fit import levers
from infra.preview.fit.train_step import TrainStep
from infra.preview.fit.verdict import FitVerdict
from infra.preview.purchase import Purchase
from infra.stack_file.settings import SettingsError
from infra.stack_file.terms import FitCheck


def gate(purchase: Purchase, verdict: FitVerdict, buying: bool) -> tuple[str, ...]:
    """What a preview should add. Raises SettingsError for a step that cannot run, or that `buying` needs to know."""
    if verdict.fits is False:
        changes = _changes(purchase, verdict)
        raise SettingsError(
            f"{verdict.model} does not fit {verdict.topology}: {verdict.reason}; {changes} in {purchase.file}"
        )
    if verdict.fits or purchase.fit is FitCheck.UNCHECKED:
        return ()
    ask = f"run `slipway fit {purchase.stack}`"
    more = "choose a larger accelerator or a smaller step" if verdict.estimated else ask
    problem = (
        f"whether {verdict.model} fits is unknown: {verdict.reason}; {more}, or write `slipway:fit: unchecked` in "
        f"{purchase.file}"
    )
    if buying:
        raise SettingsError(problem)
    return (f"`up` will refuse: {problem}",)


def _changes(purchase: Purchase, verdict: FitVerdict) -> str:
    if verdict.peak_gib is None:
        return f"change {', '.join(verdict.keys)}"
    ranked = " | ".join(lever.title for lever in levers.ranked(TrainStep(purchase.workload), verdict))
    return f"the largest saving first (`slipway fit {purchase.stack} --levers` asks the compiler of each): {ranked}"
