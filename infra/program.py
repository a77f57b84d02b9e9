"""The Pulumi program: settings in, one target's resources declared, what a reviewer should know said."""

from __future__ import annotations

import os
import signal

import pulumi
from pulumi.runtime.config import get_config_env, get_config_secret_keys_env

from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import SettingsError
from infra.targets.registry import Target, declare


def main() -> None:
    """Declare the current stack. A bad stack stops here, with one sentence and before any resource."""
    # The engine interrupts the program when an update fails; the error is said by then, and a traceback would bury it.
    signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    try:
        stack = pulumi.get_stack()
        text = stack_settings.read(stack)
        settings = stack_settings.from_engine(stack, get_config_env(), get_config_secret_keys_env(), text)
        spec, notices = declare(Target(settings.target))(settings)
    except SettingsError as error:
        raise pulumi.RunError(str(error)) from None
    pulumi.log.info("\n".join(notices))
    if spec:
        pulumi.export("run", spec.run_name)
        pulumi.export("output_directory", f"{spec.output_directory}/{spec.run_name}")
