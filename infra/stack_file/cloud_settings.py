"""Keys of every stack in Google's cloud, whether it trains or not: whose project, what names begin with, rules.

Owns their checks. Refuses to own the rules themselves (infra/names.py, infra/rules/guardrails.py).
"""

from __future__ import annotations

from typing import Annotated

from infra import names
from infra.rules import google_checks, guardrails
from infra.stack_file.settings import Owned, without

type Region = Annotated[str, without(google_checks.region_problem)]


class CloudSettings(Owned):
    """A stack in Google's cloud."""

    project: Annotated[str, without(names.project_problem)]
    """The Google Cloud project's id, domain-scoped (`example.com:x`) or not. `my-project` previews only."""
    prefix: Annotated[str, without(names.prefix_problem)] = "slipway"
    """What all names in the project begin with; a foundation and the stacks on it have the same."""
    allow: Annotated[tuple[str, ...], without(guardrails.unknown_rules)] = ()
    """Rules of infra/rules/guardrails.py that this stack breaks on purpose."""
