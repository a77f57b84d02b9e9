"""Where stacks may leave something billed, and which targets tell of it: what `slipway orphans` and `gc` ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from infra.stack_file.cloud_settings import CloudSettings
from infra.stack_file.terms import Terms
from infra.targets import registry
from infra.targets.contract import PaidContract

type Asked = tuple[PaidContract[Any, Any], str]


def of(stacks: Iterable[Terms]) -> list[Asked]:
    """Each place of these stacks once for each target that may bill there."""
    stacks = list(stacks)
    projects = dict.fromkeys(each.project for each in stacks if isinstance(each, CloudSettings))
    others = [(registry.paid()[each.target], each.billed_in) for each in stacks if not isinstance(each, CloudSettings)]
    return [*(each for project in projects for each in of_project(project)), *dict.fromkeys(others)]


def named(place: str, stacks: Iterable[Terms]) -> list[Asked]:
    """The place of that name: as these stacks have it, else as a Google project."""
    return [each for each in of(stacks) if each[1] == place] or of_project(place)


def of_project(project: str) -> list[Asked]:
    """A Google project is asked for what any target may have left in it, and once where several tell of the same."""
    at_google = [target for target in registry.paid().values() if issubclass(target.settings(), CloudSettings)]
    by_teller = {type(target).billed: target for target in reversed(at_google)}
    return [(target, project) for target in at_google if by_teller[type(target).billed] is target]
