"""What a job's containers run: the image, and the arguments of MaxText among commands, scripts and variables. Pure.

Owns where in a container those are. Refuses to own shells (command_line.py) and what the arguments mean
(maxtext_arguments.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from infra.hardware import Accelerator
from infra.importing import command_line, maxtext_arguments, secret_words
from infra.importing.draft import Draft, shown
from infra.importing.environment import Variable
from infra.importing.job_text import JobNode
from infra.importing.machines import Pool
from infra.importing.maxtext_arguments import Argument

_IMAGE = re.compile(r"[a-z0-9][\x21-\x7e]*")  # as stacks take it
_STARTS = "Slipway starts MaxText itself"
_OTHER = f"{_STARTS}, in an environment that hosts install; what this does is not in the file"


def image(found: Sequence[Pool], draft: Draft) -> None:
    nodes = [pool.container["imageUri"] for pool in found if "imageUri" in pool.container]
    for node in nodes:
        if node.text != nodes[0].text:
            why = f"pool 0 has {nodes[0].text}, which holds: hosts of a stack are alike"
            draft.account.contradictory(node.paths, shown(node), why, "image")
        elif not _IMAGE.fullmatch(node.text):
            draft.account.dropped(node.paths, shown(node), "is no image; hosts take the target's own, python:3.12")
        else:
            needs = "hosts install their own environment in it, so it needs Python 3.12, bash and curl"
            tag = "" if "@sha256:" in node.text else "; a tag may be another image tomorrow: give it by @sha256:..."
            draft.keep(node, "image", node.text, f"{needs}{tag}")


def arguments(found: Sequence[Pool], variables: dict[str, Variable], draft: Draft) -> list[Argument] | None:
    """MaxText's arguments; None where nothing starts MaxText. What a shell sets is put into `variables`, and a variable
    that is a command, or one of MaxText's own (M_...), is taken out."""
    texts, paths = _words(found, draft)
    environ = {variable.name: variable.value for variable in variables.values()}
    own = _of_fields(variables)
    at = command_line.trainer(texts)
    if at is not None:
        for text, where in zip(texts[: at + 1], paths[: at + 1], strict=True):
            draft.account.dropped(where, text, _STARTS)
        for text, where in zip(texts[at + 1 :], paths[at + 1 :], strict=True):
            own += maxtext_arguments.read([command_line.expanded(text, environ)], where, draft)
        draft.used |= command_line.names(texts)
        return own
    every = tuple(path for where in paths for path in where)
    starts = bool(texts) and _of_shell("command", texts, every, variables, draft, own)
    for variable in list(variables.values()) if not starts else ():
        if command_line.read([variable.value], {}).words is not None:
            del variables[variable.name]
            starts = _of_shell(variable.name, [variable.value], variable.paths, variables, draft, own)
            break
    return own if starts or own else None


def _of_shell(
    name: str,
    texts: Sequence[str],
    paths: tuple[str, ...],
    variables: dict[str, Variable],
    draft: Draft,
    own: list[Argument],
) -> bool:
    """Whether the words start MaxText, whose arguments are added to `own`."""
    commands = command_line.read(texts, {variable.name: variable.value for variable in variables.values()})
    for variable, value in commands.variables:
        if secret_words.take(variable, value, draft):
            draft.account.dropped(paths, f"{variable}={secret_words.HIDDEN}", secret_words.advice(variable, draft))
            continue
        earlier = variables.get(variable)
        if earlier and earlier.value != value:
            why = f"is {earlier.value} in env and {value} in the command, which holds"
            draft.account.contradictory((*earlier.paths, *paths), variable, why)
        variables[variable] = Variable(variable, value, (*(earlier.paths if earlier else ()), *paths))
    for command in commands.others:
        draft.account.dropped(paths, command, _OTHER)
    if commands.words is None:
        if not commands.others and not commands.variables:
            draft.account.dropped(paths, " ".join(texts), _OTHER)
        return False
    draft.account.dropped(paths, f"{name}: the program", _STARTS)
    draft.used |= command_line.names(texts)
    own += maxtext_arguments.read(commands.words, paths, draft)
    return True


def _of_fields(variables: dict[str, Variable]) -> list[Argument]:
    """MaxText takes its fields as variables, too: M_STEPS is steps."""
    names = [name for name in variables if re.fullmatch(r"M_[A-Z0-9_]+", name)]
    taken = [variables.pop(name) for name in names]
    return [Argument(each.name.removeprefix("M_").lower(), each.value, each.paths) for each in taken]


def _words(found: Sequence[Pool], draft: Draft) -> tuple[list[str], list[tuple[str, ...]]]:
    """Command and arguments of the first pool, each word with its paths in all pools that have the same."""
    of_pools = [[node for key in ("command", "args") for node in _nodes(pool.container, key)] for pool in found]
    first = of_pools[0]
    paths = [list(node.paths) for node in first]
    for nodes in of_pools[1:]:
        if [node.text for node in nodes] == [node.text for node in first]:
            for where, node in zip(paths, nodes, strict=True):
                where += node.paths
        elif nodes:
            every = [path for node in nodes for path in node.paths]
            why = "is another command than the first pool's, which holds: hosts of a stack run the same"
            draft.account.contradictory(every, "command", why)
    return [node.text for node in first], [tuple(where) for where in paths]


def _nodes(container: Mapping[str, JobNode], key: str) -> list[JobNode]:
    node = container.get(key)
    if node is None:
        return []
    return node.items if isinstance(node.value, list) else [node]


def judge(found: Sequence[Pool], variables: dict[str, Variable], row: Accelerator, draft: Draft) -> bool:
    """Image and arguments into the draft; whether anything starts MaxText."""
    image(found, draft)
    own = arguments(found, variables, draft)
    maxtext_arguments.judge(own or (), row, draft)
    for pool in found:
        for key, node in pool.container.items():
            if key not in ("imageUri", "command", "args", "env"):
                draft.account.dropped(node.paths, key, "is no part of a container that a stack has")
    return own is not None
