"""What a verdict means for a preview and for `up`. Pure.

Out of memory, or a refusal of the compiler's, stops both; what is unknown stops `up`, unless the stack says otherwise.
"""

from __future__ import annotations

from infra.preview.fit import levers
from infra.preview.fit.train_step import Question
from infra.preview.fit.verdict import Verdict
from infra.stack_file.cloud_training import FitCheck
from infra.stack_file.settings import SettingsError
from infra.targets.tpu_vm.settings import TpuVmSettings


def gate(settings: TpuVmSettings, verdict: Verdict, buying: bool) -> tuple[str, ...]:
    """What a preview should add. Raises SettingsError for a step that cannot run, or that `buying` needs to know."""
    where = f"stacks/Pulumi.{settings.stack}.yaml"
    if verdict.fits is False:
        change = _change(settings, verdict)
        raise SettingsError(f"{verdict.model} does not fit {verdict.topology}: {verdict.reason}; {change} in {where}")
    if verdict.fits or settings.fit is FitCheck.UNCHECKED:
        return ()
    said = (
        f"whether {verdict.model} fits is unknown: {verdict.reason}; run `slipway fit {settings.stack}`, "
        f"or write `slipway:fit: unchecked` in {where}"
    )
    if buying:
        raise SettingsError(said)
    return (f"`up` will refuse: {said}",)


def _change(settings: TpuVmSettings, verdict: Verdict) -> str:
    if verdict.peak_gib is None:
        return f"change {', '.join(verdict.keys)}"
    ranked = " | ".join(lever.title for lever in levers.ranked(Question(settings), verdict))
    return f"the largest saving first (`slipway fit {settings.stack} --levers` asks the compiler of each): {ranked}"
