"""What a compiled program sends between devices, read from its text. Standard library only.

Owns: which collective is in which loop (and how often that runs), how many bytes each device sends for it, and along
which mesh axis, over which network. Bytes are those of the algorithms that send least: a ring for what is gathered or
reduced, and between hosts of GPUs each byte once. Refuses to own how long that takes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

_BITS = {"pred": 8, "bf16": 16, "f16": 16, "f32": 32, "f64": 64, "c64": 64, "c128": 128}
_SHAPE = re.compile(r"([a-z][a-z0-9]*)\[([0-9,]*)\]")
_HEADER = re.compile(r"^(ENTRY )?%?([^ ]+) \(.*\) -> .*\{$")
_KINDS = "all-gather|all-reduce|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute"
_COLLECTIVE = re.compile(rf" = (?P<shape>.*?) (?P<kind>{_KINDS})(?P<start>-start)?\(")
_CHANNEL = re.compile(r"channel_id=(\d+)")
_FUSED = re.compile(r"fused_computation|async_collective_fusion")
_FUSED_SCATTER = "all-reduce-scatter"  # a fusion of an all-reduce with taking one's own part of it
_BETWEEN_SLICES = re.compile(r" = (?P<shape>.*?) send\(.*_xla_megascale_transfer_type=\"(?P<kind>[A-Z_]+)\"")
_CALLED = re.compile(r"(?:calls|to_apply|body|branch_computations|called_computations)=\{?(%[^ ,}]+(?:, ?%[^ ,}]+)*)")
_WHILE = re.compile(r" while\(.*?condition=%(?P<condition>[^ ,]+), body=%(?P<body>[^ ,]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_CONSTANT = re.compile(r"^ *(%[^ ]+) = [su]\d+\[\]\S* constant\((\d+)\)")
_COMPARED = re.compile(r"compare\((%[^ ,)]+), (%[^ ,)]+)\), direction=LT")
_ELEMENT = re.compile(r"^ *(%[^ ]+) = .* get-tuple-element\(.*\), index=(\d+)")
_ADDED = re.compile(r"^ *(?:ROOT )?(%[^ ]+) = .* add\((%[^ ,)]+), (%[^ ,)]+)\)")
_ROOT = re.compile(r"^ *ROOT .* tuple\((.*?)\)(?:,|$)")
_NAME = re.compile(r"%[^ ,)]+")
_PAIRS = re.compile(r"source_target_pairs=\{(\{.*?\})\}")
_LISTED = re.compile(r"replica_groups=\{\{([\d,]+)\}")
_IOTA = re.compile(r"replica_groups=\[(?P<groups>[\d,]+)\]<=\[(?P<dims>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?")
_MESH = re.compile(r"replica_groups=mesh\[(?P<mesh>[^\]]*)\] ?\{(?P<axes>[^}]*)\}")
_AXIS = re.compile(r"'([^']+)'(?:=(\d+)|:\((\d+)\)(\d+))?")


@dataclass(frozen=True)
class Collective:
    """`size` in bytes that one device sends in a step. `network` is ici or dcn; `axis` names mesh axes with `+`."""

    network: str
    axis: str
    operation: str
    size: float


def collectives(
    program: str, mesh: Mapping[str, int], slices: Sequence[int], hosts: Sequence[int] = ()
) -> list[Collective]:
    """Summed by network, axis and operation. `slices` has the slice of each device, in the mesh's order.

    `hosts` has the host of each GPU: what leaves a host goes over `dcn`. Empty for TPUs, whose ICI joins hosts.
    """
    computations, entry = _computations(program)
    callers = _callers(computations)
    times = _times(callers, entry)
    total: dict[tuple[str, str, str], float] = defaultdict(float)
    seen: set[tuple[str, str]] = set()
    for name, lines in computations.items():
        often = times(name)
        for line in lines if often else ():
            sent = _within_slice(name, line, mesh, hosts) or _between_slices(line, mesh, slices)
            if not sent or _again(name, line, callers, seen):
                continue
            for one in sent:
                total[one.network, one.axis, one.operation] += one.size * often
    return [Collective(*key, size=size) for key, size in sorted(total.items()) if size]


def _again(name: str, line: str, callers: Mapping[str, Mapping[str, float]], seen: set[tuple[str, str]]) -> bool:
    """Whether a collective was met before: one spread over several fusions of a loop is in the text of each."""
    channel = _CHANNEL.search(line)
    if not channel or _FUSED_SCATTER in name:
        return False
    while _FUSED.match(name) and len(callers[name]) == 1:
        (name,) = callers[name]
    known = (name, channel[1]) in seen
    seen.add((name, channel[1]))
    return known


def _within_slice(computation: str, line: str, mesh: Mapping[str, int], hosts: Sequence[int]) -> tuple[Collective, ...]:
    found = _COLLECTIVE.search(line)
    if not found:
        return ()
    group, kind, size = _group(line), found["kind"], _bytes(found["shape"], bool(found["start"]), found["kind"])
    if kind == "all-reduce" and _FUSED_SCATTER in computation:
        kind, size = "reduce-scatter", size / max(1, len(group))
    axes, sent = _axes(group, mesh), _sent(kind, size, len(group))
    between = len({hosts[device] for device in group}) if hosts else 1
    inside = Collective("ici", axes, kind, sent if between < len(group) or not hosts else 0.0)
    if between < 2:
        return (inside,)
    return (inside, Collective("dcn", axes, kind, _between_hosts(kind, size, len(group), between)))


def _between_hosts(kind: str, size: float, members: int, hosts: int) -> float:
    """Bytes of one device's share of what its host sends to others, from the result's size."""
    if kind in ("all-to-all", "ragged-all-to-all", "collective-permute"):
        return _sent(kind, size, hosts)
    of_host = members / hosts
    return _sent(kind, size * (of_host if kind == "reduce-scatter" else 1), hosts) / of_host


def _between_slices(line: str, mesh: Mapping[str, int], slices: Sequence[int]) -> tuple[Collective, ...]:
    """What crosses slices leaves the program as a send to the host, which says of which collective it is a part."""
    found = _BETWEEN_SLICES.search(line)
    if not found:
        return ()
    first = tuple({slices[device]: device for device in reversed(range(len(slices)))}.values())
    kind = found["kind"].lower().replace("_", "-")
    given = _size(*_SHAPE.findall(found["shape"])[0])  # what a device hands in, not the result
    result = {"all-gather": len(first) * given, "reduce-scatter": given / len(first)}.get(kind, given)
    operation = "collective-permute" if kind == "one-to-one" else kind
    return (Collective("dcn", _axes(first, mesh), operation, _sent(operation, result, len(first))),)


def _computations(program: str) -> tuple[dict[str, list[str]], str]:
    """Lines of each computation by its name, and the name of the entry."""
    found: dict[str, list[str]] = {}
    entry = ""
    lines: list[str] | None = None
    for line in program.splitlines():
        header = _HEADER.match(line)
        if header:
            lines = found.setdefault(header[2], [])
            entry = header[2] if header[1] else entry
        elif lines is not None:
            lines.append(line)
    return found, entry


def _callers(computations: Mapping[str, list[str]]) -> dict[str, dict[str, float]]:
    """Who calls each computation, and how often in one run of the caller."""
    callers: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, lines in computations.items():
        for called, often in _calls(lines, computations):
            callers[called][name] += often
    return callers


def _times(callers: Mapping[str, Mapping[str, float]], entry: str) -> Callable[[str], float]:
    """How often a computation runs in a step: a loop's body as often as its condition holds."""
    known: dict[str, float] = {entry: 1.0}

    def times(name: str) -> float:
        if name not in known:
            known[name] = 0.0  # a computation is never its own caller
            known[name] = sum(often * times(caller) for caller, often in callers[name].items())
        return known[name]

    return times


def _calls(lines: list[str], computations: Mapping[str, list[str]]) -> Iterator[tuple[str, float]]:
    for line in lines:
        loop = _WHILE.search(line)
        if loop:
            yield loop["body"], _trips(line, *(computations.get(loop[part], []) for part in ("condition", "body")))
            continue
        for names in _CALLED.findall(line):
            for name in names.split(","):
                yield name.strip().removeprefix("%"), 1.0


def _trips(line: str, condition: list[str], body: list[str]) -> float:
    """The compiler's own count where it says one; else of a counter from 0 to the condition's bound, in its steps."""
    said = _TRIPS.search(line)
    if said:
        return float(said[1])
    bounds = _constants(condition)
    compared = next((found for text in condition if (found := _COMPARED.search(text))), None)
    if compared is None or compared[2] not in bounds:
        return float(max(bounds.values(), default=1))  # the comparison is inside a fusion
    elements = {found[1]: int(found[2]) for text in condition if (found := _ELEMENT.match(text))}
    return math.ceil(bounds[compared[2]] / _step(body, elements.get(compared[1])))


def _step(body: list[str], element: int | None) -> int:
    """What a loop's body adds to an element of its state; 1 where the text does not say it plainly."""
    root = next((found for text in body if (found := _ROOT.match(text))), None)
    names = _NAME.findall(root[1]) if root else []
    if element is None or element >= len(names):
        return 1
    constants = _constants(body)
    added = {found[1]: (found[2], found[3]) for text in body if (found := _ADDED.match(text))}
    return max((constants.get(name, 0) for name in added.get(names[element], ())), default=1) or 1


def _constants(lines: list[str]) -> dict[str, int]:
    return {found[1]: int(found[2]) for line in lines if (found := _CONSTANT.match(line))}


def _bytes(shape: str, started: bool, kind: str) -> float:
    """Bytes of a result. What starts asynchronously has its inputs before its result; what is reduced has not.

    For GPUs both are there always, each a tuple of as many where several collectives were made one.
    """
    sizes = [_size(element, dimensions) for element, dimensions in _SHAPE.findall(shape)]
    if not sizes:
        return 0.0
    if started and shape.startswith("(("):
        return sum(sizes[len(sizes) // 2 :])
    if not started or kind == "all-reduce":
        return sum(sizes)
    return sizes[1] if kind == "collective-permute" and len(sizes) > 1 else max(sizes)


def _size(element: str, dimensions: str) -> float:
    bits = _BITS.get(element) or int(re.sub(r"^(?:f|s|u)(\d+).*", r"\1", element) if element[1:2].isdigit() else 0)
    return math.prod(int(axis) for axis in dimensions.split(",") if axis) * bits / 8


def _sent(kind: str, size: float, members: int) -> float:
    """Bytes that one device sends, from the result's size."""
    if kind == "collective-permute":
        return size
    if members < 2:
        return 0.0
    share = (members - 1) / members
    return {"all-reduce": 2 * share * size, "reduce-scatter": (members - 1) * size}.get(kind, share * size)


def _group(line: str) -> tuple[int, ...]:
    """Devices of one group of a collective, in the program's numbering; empty where the text says none."""
    if pairs := _PAIRS.search(line):
        return _connected(pairs[1])
    if listed := _LISTED.search(line):
        return tuple(int(device) for device in listed[1].split(","))
    if iota := _IOTA.search(line):
        return _iota_group(iota)
    if of_mesh := _MESH.search(line):
        return _mesh_group(of_mesh["mesh"], of_mesh["axes"])
    return ()


def _connected(pairs: str) -> tuple[int, ...]:
    """Everybody that the first sender's bytes reach, hop by hop."""
    following = {int(source): int(target) for source, target in re.findall(r"(\d+),(\d+)", pairs)}
    group = [next(iter(following))] if following else []
    while group and (then := following.get(group[-1])) is not None and then not in group:
        group.append(then)
    return tuple(group)


def _iota_group(iota: re.Match[str]) -> tuple[int, ...]:
    """The first of `[groups, members]<=[dims]T(order)`: counting over `dims` with its axes in `order`."""
    *_, members = _numbers(iota["groups"])
    dims = _numbers(iota["dims"])
    order = _numbers(iota["order"]) if iota["order"] else list(range(len(dims)))
    strides = _strides(dims)
    positions = itertools.product(*(range(0, dims[axis] * strides[axis], strides[axis]) for axis in order))
    return tuple(sum(position) for position in itertools.islice(positions, members))


def _mesh_group(written: str, axes: str) -> tuple[int, ...]:
    """Devices along the named axes of a mesh, from device 0. `'x':(a)b` is b of x, inside of a."""
    sizes = {name: int(size) for name, size, _, _ in _AXIS.findall(written) if size}
    strides = dict(zip(sizes, _strides([*sizes.values()]), strict=True))
    group = [0]
    for name, _, before, part in _AXIS.findall(axes):
        size = int(part) if part else sizes.get(name, 1)
        step = strides.get(name, 1) * (sizes.get(name, 1) // (int(before) * size) if part else 1)
        group = [device + index * step for device in group for index in range(size)]
    return tuple(group)


def _axes(group: tuple[int, ...], mesh: Mapping[str, int]) -> str:
    """Axes of the mesh along which the group's devices differ."""
    named = [
        name
        for (name, size), stride in zip(mesh.items(), _strides([*mesh.values()]), strict=True)
        if len({device // stride % size for device in group}) > 1
    ]
    return "+".join(named) or "unknown"


def _strides(sizes: Sequence[int]) -> list[int]:
    """How far apart neighbours along each axis are."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]
