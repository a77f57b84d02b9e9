"""The Pulumi program: settings in, what they mean decided and said, one target's resources declared."""

from __future__ import annotations

import os
import signal

import pulumi
from pulumi.runtime.config import get_config_env, get_config_secret_keys_env

from infra.components import claimed_artifacts
from infra.preview import stack_plan
from infra.preview.stack_plan import TrainingPlan
from infra.rules import enforce
from infra.stack_file import settings as stack_settings
from infra.stack_file.cloud_settings import CloudSettings
from infra.stack_file.settings import Owned, SettingsError
from infra.stack_file.terms import Terms
from infra.targets import registry
from infra.targets.errors import TargetError


def main() -> None:
    """Declare the current stack. A bad stack stops here, with one sentence and before any resource."""
    # The engine interrupts the program when an update fails; the error is said by then, and a traceback would bury it.
    signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    buying = not pulumi.runtime.is_dry_run()
    try:
        stack = pulumi.get_stack()
        text = stack_settings.read(stack)
        settings = stack_settings.from_engine(stack, get_config_env(), get_config_secret_keys_env(), text)
        plan = stack_plan.decide(settings, buying, lambda line: pulumi.log.info(f"fit: {line}", ephemeral=True))
        if buying and isinstance(settings, Terms) and isinstance(plan, TrainingPlan):
            claimed_artifacts.claim(settings, plan.software)
    except SettingsError as error:
        raise pulumi.RunError(str(error)) from None
    if isinstance(settings, Owned):
        enforce.install(settings.stack, settings.owner, settings.allow if isinstance(settings, CloudSettings) else ())
    else:
        enforce.nothing_billed()
    if isinstance(settings, Terms):
        enforce.guard_first()
    try:
        registry.of(settings.target).declare(plan)
    except TargetError as error:
        raise pulumi.RunError(str(error)) from None
    pulumi.log.info("\n".join(plan.notices))
    if isinstance(plan, TrainingPlan):
        pulumi.export("run", plan.spec.run_name)
        pulumi.export("output_directory", f"{plan.spec.output_directory}/{plan.spec.run_name}")
