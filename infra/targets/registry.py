"""The targets, one line each: how a stack of it is planned and declared."""

from __future__ import annotations

from collections.abc import Callable

from infra.settings import Settings, Target
from infra.targets import local
from training.run_spec import RunSpec

DECLARE: dict[Target, Callable[[Settings], tuple[RunSpec, tuple[str, ...]]]] = {Target.LOCAL: local.declare}
