"""Endpoints that Google's plugin uses instead of Google: they stay as they are while what was made there exists.

A `destroy` that asks another server than `up` did finds nothing there and reports success, and what was made runs on.
The engine keeps the keys of a stack file in its state, so `refresh` and `destroy` go by them; variables it does not
keep, and `up` and `preview` go by the file. Refuses to own Private Service Connect: its names are Google's own.
Standard library only.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra import emulated

_ENDPOINT = "CustomEndpoint"
_KEY = re.compile(rf"^ +[\"']?gcp:(\w+{_ENDPOINT})[\"']?: *[\"']?([^\s\"'#]+)", re.MULTILINE)
_PROVIDER = "pulumi:providers:gcp"


def problem_of_shell(environment: Mapping[str, str]) -> str | None:
    """Why a variable that names another endpoint is refused: the state would not record it."""
    for each in emulated.substitutes(environment):
        if each.counts_as == emulated.PLUGIN:
            api = each.variable.removeprefix("GOOGLE_").removesuffix("_CUSTOM_ENDPOINT").lower().split("_")
            key = "".join((api[0], *(word.capitalize() for word in api[1:]))) + _ENDPOINT
            return (
                f"{each.variable} is {environment[each.variable]}, and the state would not say that what is made is "
                f"there; run `unset {each.variable}`, and for that endpoint write `gcp:{key}: "
                f"{environment[each.variable]}` into the stack file, which the state keeps"
            )
    return None


def problem_of_stack_file(stack: str, states: Iterable[Path] | None) -> str | None:
    """Why an endpoint in the stack file is refused: the stack's resources were made at another.

    stack: text of the file. states: the files with the stack's state; None where it is not in this clone. Nobody can
    compare then, so only Google's own endpoints pass.
    """
    wanted = _not_googles(dict(_KEY.findall(stack)))
    if states is None:
        named = next(iter(sorted(wanted)), None)
        return named and (
            f"gcp:{named} is {wanted[named]}, which is not Google, and the state of this stack is not in this clone: "
            f"what is there is Google's; take that key out of the stack file, or run `pulumi logout` to keep what an "
            f"emulator has in a state of its own"
        )
    for made in [made for state in states if (made := _made_at(state)) is not None]:
        for key in sorted(wanted.keys() | made.keys()):
            if wanted.get(key) != made.get(key):
                back = f"write `gcp:{key}: {made[key]}` into" if key in made else f"take `gcp:{key}` out of"
                return (
                    f"what this stack has was made at {made.get(key, 'Google')} (gcp:{key}), but the stack file says "
                    f"{wanted.get(key, 'Google')}; {back} the stack file again, or first run `pulumi destroy`, which "
                    f"asks where it was made"
                )
    return None


def _made_at(state: Path) -> dict[str, str] | None:
    """The endpoints of a state's resources that are not Google's; None where it has none of Google's plugin."""
    data = state.read_bytes()
    latest: Any = json.loads(gzip.decompress(data) if state.suffix == ".gz" else data)["checkpoint"].get("latest")
    resources: list[dict[str, Any]] = latest.get("resources", []) if latest else []
    used = {str(each.get("provider", "")).rpartition("::")[0] for each in resources}
    providers = [each for each in resources if each["type"] == _PROVIDER and each["urn"] in used]
    if not providers:
        return None
    return _not_googles({key: value for each in providers for key, value in each.get("inputs", {}).items()})


def _not_googles(inputs: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: value
        for key, value in inputs.items()
        if key.endswith(_ENDPOINT) and isinstance(value, str) and not emulated.is_googles(value)
    }
