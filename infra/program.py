"""The Pulumi program: settings in, one target's resources declared, what a reviewer should know said."""

from __future__ import annotations

import os
import signal

import pulumi
from pulumi.runtime.config import get_config_env

from infra import settings as stack_settings
from infra.settings import SettingsError
from infra.targets.registry import DECLARE
from training.run_spec import RunSpec
from training.sharding import resolve_mesh


def main() -> None:
    """Declare the current stack. A bad stack stops here, with one sentence and before any resource."""
    # The engine interrupts the program when an update fails; the error is said by then, and a traceback would bury it.
    signal.signal(signal.SIGINT, lambda number, _: os._exit(128 + number))
    try:
        settings = stack_settings.from_engine(pulumi.get_stack(), get_config_env())
        spec, notices = DECLARE[settings.target](settings)
    except SettingsError as error:
        raise pulumi.RunError(str(error)) from None
    pulumi.log.info(describe(spec))
    for notice in notices:
        pulumi.log.info(notice)
    pulumi.export("run", spec.run_name)
    pulumi.export("output_directory", f"{spec.output_directory}/{spec.run_name}")


def describe(spec: RunSpec) -> str:
    """One line: hardware, mesh, run."""
    mesh = resolve_mesh(spec.maxtext, spec.hosts_per_slice * spec.devices_per_host, spec.slices)
    size = f"{spec.slices} x {spec.hosts_per_slice} hosts x {spec.devices_per_host} {spec.platform} devices"
    length = f"{spec.steps} steps of {spec.tokens_per_step:,} tokens"
    return f"{spec.stack}: {size}, mesh {mesh}; run {spec.run_name}, {length}; $0"
