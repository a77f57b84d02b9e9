"""What inputs and outputs a gcp resource type has, read from the source text of the installed `pulumi_gcp`.

Owns: from a type token to keys as they are on the wire, their types, which are required. Refuses to own: any knowledge
of a single resource. The source is searched as text, one class at a time, because pulumi_gcp's own metadata
(`pulumi._types.input_type_types`) needs the classes: importing `pulumi_gcp.compute` takes 1.1 s and 60 MB, the nine
types of a foundation in its source 0.04 s.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# A getter of an Args class (Input) or of a resource class (Output); the wire's name is given where it differs.
_GETTER = re.compile(
    r'    @pulumi\.getter(?:\(name="(?P<wire>\w+)"\))?\n'
    r'(?:    @_utilities\.deprecated\("""(?s:.*?)"""\)\n)?'
    r"    def (?P<name>\w+)\(self\) -> pulumi\.(?:Input|Output)\[(?P<type>.*)\]:\n"
)
_END_OF_CLASS = re.compile(r"^\S", re.MULTILINE)


@dataclass(frozen=True)
class Scalar:
    """kind: str, int, float or bool."""

    kind: str


@dataclass(frozen=True)
class ListOf:
    item: Type


@dataclass(frozen=True)
class MapOf:
    value: Type


@dataclass(frozen=True)
class ObjectOf:
    """A nested Args class of a package, looked up when a value of it is at hand."""

    package: str
    name: str


@dataclass(frozen=True)
class Anything:
    """A value that is not checked: an asset, or what the SDK leaves open."""


type Type = Scalar | ListOf | MapOf | ObjectOf | Anything


@dataclass(frozen=True)
class Field:
    type: Type
    required: bool


@dataclass(frozen=True)
class ResourceType:
    """inputs by wire key; outputs by wire key, required where the plugin always fills them in."""

    args: ObjectOf
    inputs: Mapping[str, Field]
    outputs: Mapping[str, Field]


def version() -> str:
    """The version of the installed SDK; the official plugin must have the same."""
    return json.loads((_root() / "pulumi-plugin.json").read_text())["version"]


@functools.cache
def resource_type(token: str) -> ResourceType | None:
    """token: `gcp:compute/network:Network`. None if the SDK has no such resource."""
    _, path, name = token.split(":")
    package, slash, module = path.partition("/")
    if not slash:
        return None
    files = [file for file in sorted((_root() / package).glob("*.py")) if file.stem.replace("_", "") == module.lower()]
    text = _text(f"{package}/{files[0].name}") if files else ""
    name = name[:1].upper() + name[1:]
    own = _class(text, f"class {name}(pulumi.CustomResource):\n")
    # A resource whose Args name a nested type has taken already has InitArgs.
    args = next((ending for ending in ("InitArgs", "Args") if f"\nclass {name}{ending}:\n" in text), None)
    if own is None or args is None:
        return None
    inputs = _fields(package, _class(text, f"class {name}{args}:\n") or "")
    return ResourceType(ObjectOf(package, name + args), inputs, _fields(package, own))


@functools.cache
def object_fields(nested: ObjectOf) -> Mapping[str, Field] | None:
    """The keys of a nested object; None where its class is not in the source, and then nothing in it is checked."""
    source = _class(_text(f"{nested.package}/_inputs.py"), f"class {nested.name}:\n")
    return None if source is None else _fields(nested.package, source)


@functools.cache
def provider_fields() -> Mapping[str, Field]:
    """The provider's own configuration keys."""
    return _fields("", _class(_text("provider.py"), "class ProviderArgs:\n") or "")


@functools.cache
def _root() -> Path:
    spec = importlib.util.find_spec("pulumi_gcp")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the pulumi_gcp package is missing from this environment; run `make setup`")
    return Path(spec.submodule_search_locations[0])


@functools.cache
def _text(path: str) -> str:
    file = _root() / path
    return file.read_text() if file.exists() else ""


def _class(text: str, header: str) -> str | None:
    start = text.find("\n" + header)
    if start < 0:
        return None
    end = _END_OF_CLASS.search(text, start + 1 + len(header))
    return text[start : end.start() if end else len(text)]


def _fields(package: str, text: str) -> dict[str, Field]:
    return {
        getter["wire"] or getter["name"]: Field(
            _type(ast.parse(getter["type"], mode="eval").body, package), not getter["type"].startswith("Optional[")
        )
        for getter in _GETTER.finditer(text)
    }


def _type(annotation: ast.expr, package: str) -> Type:
    match annotation:
        case ast.Subscript(value=generic, slice=inner):
            return _generic(_last_name(generic), inner, package)
        case ast.Constant(value=str(name)) if "." not in name:
            return ObjectOf(package, name)
        case ast.Name() | ast.Attribute() if _last_name(annotation) in ("str", "int", "float", "bool"):
            return Scalar(_last_name(annotation))
        case _:
            return Anything()


def _generic(name: str, inner: ast.expr, package: str) -> Type:
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    match name:
        case "Input" | "Optional":
            return _type(inner, package)
        case "Sequence":
            return ListOf(_type(inner, package))
        case "Mapping":
            return MapOf(_type(parts[-1], package))
        case "Union" if all(isinstance(part, ast.Constant) for part in parts):
            return _type(parts[0], package)  # an Args class and the spelling of it as a dict
        case _:
            return Anything()


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]
