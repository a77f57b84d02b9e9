"""Keys of every stack in the cloud, whether it trains or not: whose project, what names begin with, who pays, rules.

Owns their checks. Refuses to own the rules themselves (infra/names.py, infra/rules/guardrails.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field

from infra import names
from infra.rules import guardrails
from infra.stack_file.settings import StackSettings


def _without[T](problem: Callable[[T], str | None]) -> AfterValidator:
    """Refuses a value of which `problem` has one, in its words."""

    def check(value: T) -> T:
        if sentence := problem(value):
            raise ValueError(sentence)
        return value

    return AfterValidator(check)


def _owner_problem(owner: str) -> str | None:
    if names.label_value(owner):
        return None
    return "has no letter or digit; give a name or an e-mail address, for it labels what is billed"


type Region = Annotated[str, _without(names.region_problem)]


class CloudSettings(StackSettings):
    """`allow` names the rules of infra/rules/guardrails.py that the stack breaks on purpose."""

    project: Annotated[str, _without(names.project_problem)]
    owner: Annotated[str, Field(min_length=1), _without(_owner_problem)]
    prefix: Annotated[str, _without(names.prefix_problem)] = "slipway"
    allow: Annotated[tuple[str, ...], _without(guardrails.unknown_rules)] = ()
