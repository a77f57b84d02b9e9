"""`python -m infra.stack_file.project_schema`: `config:` of Pulumi.yaml, from the settings classes of all targets.

Owns how the engine is told of a key: its type, the default that it fills in, and the text below the field. Refuses to
own what those are, and to be imported by a preview: reading source costs time.
"""

from __future__ import annotations

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, cast

import yaml
from pydantic import BaseModel

from infra.paths import ROOT
from infra.stack_file.settings import StackSettings
from infra.targets import registry

_NO_KEYS = ("stack", "model_file")  # the file's name; written as `training.model_file`
_EMPTY: dict[str, type] = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list}


def project_text(text: str) -> str:
    """Pulumi.yaml with the keys of today's targets."""
    keys = config(target.settings() for target in registry.every())
    lines = yaml.dump({"config": keys}, Dumper=_Dumper, sort_keys=False, width=math.inf).splitlines()
    wrap = textwrap.TextWrapper(120, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False)
    block = "".join(f"{wrap.fill(line)}\n" for line in lines)
    return re.sub(r"^config:\n(?: .*\n?)*", lambda _: block, text, flags=re.MULTILINE)


def config(classes: Iterable[type[StackSettings]]) -> dict[str, dict[str, Any]]:
    """The keys of all classes. Raises ValueError for one without a description, or of which the engine knows two."""
    entries: dict[str, dict[str, Any]] = {}
    texts: dict[str, dict[str, None]] = {}
    for settings in classes:
        schema, descriptions = settings.model_json_schema(), _descriptions(settings)
        for key, field in schema["properties"].items():
            if key in _NO_KEYS:
                continue
            where = f"{key} of {settings.__name__}"
            entry = _entry(key, field, schema.get("$defs", {}))
            if entries.setdefault(key, entry) != entry:
                raise ValueError(f"{where} is {entry}, another target's {entries[key]}; the engine knows one `{key}`")
            if key not in descriptions:
                raise ValueError(f"{where} has no description; write it below the field, as a string of its own")
            texts.setdefault(key, {})[descriptions[key]] = None
    return {key: entry | {"description": " ".join(texts[key])} for key, entry in entries.items()}


def _entry(key: str, field: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Type and default. A key that must be said has an empty default, since stacks of other targets do not have it."""
    shape = _resolved(field, definitions)
    kind = shape.get("type", "string")  # none: `Absent`, which only an empty string can be
    entry: dict[str, Any] = {"type": kind}
    if kind == "array":
        entry["items"] = {"type": _resolved(shape["items"], definitions)["type"]}
    if key in StackSettings.model_fields:
        return entry  # the engine demands it
    default = field.get("default")
    if default is None or kind == "object":
        default = _EMPTY[kind]()
    return entry | {"default": default}


def _resolved(shape: Mapping[str, Any], definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in shape:
        shape = definitions[shape["$ref"].rpartition("/")[2]]
    return shape


def _descriptions(settings: type[BaseModel]) -> dict[str, str]:
    """The text below each field, by name. Pydantic would read it at each import, which costs a preview 35 ms."""
    texts: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            tree = cast(ast.ClassDef, ast.parse(inspect.getsource(base)).body[0])
            for field, below in pairwise(tree.body):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        texts[name] = " ".join(text.split())
                    case _:
                        pass
    return texts


class _Dumper(yaml.SafeDumper):
    """Folds a text that needs quotes or more than a line of 120."""


def _text(_: yaml.SafeDumper, text: str) -> yaml.Node:
    folded = len(text) > 103 or text.startswith("`") or ": " in text
    return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=">" if folded else None if text else '"')


_Dumper.add_representer(str, _text)


if __name__ == "__main__":
    path = ROOT / "Pulumi.yaml"
    path.write_text(project_text(path.read_text(encoding="utf-8")), encoding="utf-8")
