"""Keys of every stack in Google's cloud, whether it trains or not: whose project, what names begin with, rules.

Owns their checks. Refuses to own the rules themselves (infra/names.py, infra/rules/guardrails.py).
"""

from __future__ import annotations

from typing import Annotated

from infra import names
from infra.rules import guardrails
from infra.stack_file.settings import Owned, without

type Region = Annotated[str, without(names.region_problem)]


class CloudSettings(Owned):
    """`allow` names the rules of infra/rules/guardrails.py that the stack breaks on purpose."""

    project: Annotated[str, without(names.project_problem)]
    prefix: Annotated[str, without(names.prefix_problem)] = "slipway"
    allow: Annotated[tuple[str, ...], without(guardrails.unknown_rules)] = ()
