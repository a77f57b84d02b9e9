"""`slipway doctor`: what a stack needs, and whether it is there: one finding per thing, with the fix.

Owns the order of the findings. Refuses to change anything, and to guess: what could not be asked says why. What this
machine has (of which a target may ask more) needs no account; the rest is asked of Google (google.py). Not run against
Google's own service.
"""

from __future__ import annotations

from collections.abc import Iterator

from infra.doctor import google, this_machine
from infra.stack_file.cloud_settings import CloudSettings
from infra.stack_file.settings import Settings
from infra.targets import registry
from infra.targets.needs import Finding


def findings(stack: str | None) -> Iterator[Finding]:
    """Yield the findings one by one, of one stack or of what every stack needs. What is missing raises nothing."""
    settings, stack_file = this_machine.stack_files_findings(stack)
    yield from this_machine.emulated_findings(settings)
    yield stack_file
    yield this_machine.engine_finding()
    yield this_machine.uv_finding()
    yield this_machine.environment_finding()
    yield from this_machine.locks_findings(settings)
    yield this_machine.plugin_finding(settings)
    yield from this_machine.kubernetes_plugin_findings(settings)
    if isinstance(settings, Settings):
        yield this_machine.wheelhouse_finding(settings)
    yield this_machine.stack_lock_finding(stack)
    if settings:
        yield from registry.of(settings.target).on_this_machine(settings)
    if isinstance(settings, CloudSettings):
        yield from google.of_google(settings)
    elif stack is None:
        yield google.anybody()
