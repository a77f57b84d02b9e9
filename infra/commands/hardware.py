"""`slipway hardware`: the hardware table as people and programs read it.

Owns the printing. Refuses to own a fact: all are in infra/hardware.yaml.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from infra.commands import tables
from infra.hardware import Accelerator, Price, Quota, Source, find, rows

UNKNOWN = "unknown"  # no source says it
NOTHING = "-"  # there is no such thing here


def hardware(
    pattern: Annotated[
        str, typer.Argument(metavar="FILTER", help="A name, a family, tpu, gpu, gke, ... or a part.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="A list of objects.")] = False,
) -> None:
    """The accelerators Slipway knows; of a single one, everything."""
    console = Console()
    width = console.width if console.is_terminal else None
    typer.echo(as_json_text(pattern) if as_json else as_text(pattern, width))


def as_text(pattern: str, terminal_width: int | None) -> str:
    """Rows as a table, or all that is known of a single one; without a terminal plain and wide."""
    found = _rows(pattern)
    console = Console(width=terminal_width or tables.WIDE, force_terminal=terminal_width is not None, highlight=False)
    with console.capture() as captured:
        if len(found) == 1:
            console.print(_details(found[0]))
        else:
            columns: tables.Columns = {title: [cell(row) for row in found] for title, cell in _COLUMNS.items()}
            kept, _ = tables.narrow(columns, _DROPPED_FIRST, console.width)
            console.print(tables.table(kept, _COLUMNS.keys() - _TEXT))
            _print_notes(console, found)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def as_json_text(pattern: str) -> str:
    """Rows as a JSON list, dates as text; null is unknown or means nothing here."""
    derived = ("devices", "chips_per_host", "devices_per_host")
    documents = [
        dataclasses.asdict(row) | {name: getattr(row, name) for name in derived} | {"topology": row.topology_text}
        for row in _rows(pattern)
    ]
    return json.dumps(documents, default=str, indent=1)


def _rows(pattern: str) -> tuple[Accelerator, ...]:
    return rows(pattern) or (find(pattern),)  # which raises, and says what there is instead


def _cell(row: Accelerator, field: str) -> str:
    value = getattr(row, field)
    if value in (None, ()):
        return UNKNOWN if row.applies(field) else NOTHING
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _cheapest_usd(row: Accelerator, field: str) -> str:
    known = [usd for price in row.prices if (usd := getattr(price, field)) is not None]
    return _usd(row, min(known, default=None))


def _machine_name(row: Accelerator) -> str:
    return row.machine.name if row.machine else _cell(row, "machine")


def _usd(row: Accelerator, usd: float | None) -> str:
    if usd is None:
        return UNKNOWN if row.applies("prices") else NOTHING
    return f"{usd:.2f}"


_COLUMNS: dict[str, Callable[[Accelerator], str]] = {
    "accelerator": lambda row: row.name,
    "chips": lambda row: f"{row.chips:,}",
    "devices": lambda row: f"{row.devices:,}",
    "hosts": lambda row: f"{row.hosts:,}",
    "topology": lambda row: _cell(row, "topology_text"),
    "machine": _machine_name,
    "HBM GiB": lambda row: _cell(row, "hbm_gib"),
    "bf16": lambda row: _cell(row, "peak_bf16_tflops"),
    "int8": lambda row: _cell(row, "peak_int8_tops"),
    "fp8": lambda row: _cell(row, "peak_fp8_tflops"),
    "$/chip h": lambda row: _cheapest_usd(row, "on_demand_usd"),
    "spot": lambda row: _cheapest_usd(row, "spot_usd"),
    "offered by": lambda row: ", ".join(row.apis),
}
_TEXT = {"accelerator", "topology", "machine", "offered by"}
_DROPPED_FIRST = ("offered by", "int8", "fp8", "machine", "devices")


def _print_notes(console: Console, found: tuple[Accelerator, ...]) -> None:
    console.print()
    console.print("HBM, bf16, fp8 (TFLOP/s) and int8 (TOP/s) per chip; prices: the cheapest region's, US dollars.")
    for source in dict.fromkeys(price.source for row in found for price in row.prices):
        console.print(f"Prices: {_said_by(source)}.")
    console.print(f"{UNKNOWN}: no source says it. All that is known of one: slipway hardware {found[-1].name}")


def _details(row: Accelerator) -> Table:
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column()
    for title, text in _lines(row):
        grid.add_row(title, text)
    return grid


def _lines(row: Accelerator) -> list[tuple[str, str]]:
    machine = row.machine
    size = f"{row.hosts:,} x {row.chips_per_host} (hosts x chips per host)"
    return [
        (row.name, row.title),
        ("chips", f"{row.chips:,} = {size}"),
        ("JAX devices", f"{row.devices:,}"),
        ("topology", _cell(row, "topology_text")),
        ("offered by", ", ".join(row.apis)),
        ("machine", _machine_name(row)),
        ("vCPUs, memory", _machine_size(row)),
        ("local SSDs", str(machine.local_ssds) if machine and machine.local_ssds is not None else NOTHING),
        ("TPU API type", _cell(row, "accelerator_type")),
        ("runtime version", _cell(row, "runtime_version")),
        ("GKE accelerator", _cell(row, "gke_accelerator")),
        ("Vertex accelerator", _cell(row, "vertex_accelerator")),
        ("HBM per chip", f"{_cell(row, 'hbm_gib')} GiB, {_cell(row, 'hbm_gbytes_per_s')} GB/s"),
        ("peak per chip", f"bf16 {_cell(row, 'peak_bf16_tflops')} TFLOP/s, int8 {_cell(row, 'peak_int8_tops')} TOP/s, "
         f"fp8 {_cell(row, 'peak_fp8_tflops')} TFLOP/s"),
        ("ICI or NVLink", f"{_cell(row, 'ici_gbytes_per_s')} GB/s per chip, both directions"),
        ("network per host", f"{_cell(row, 'nic_gbits_per_host')} Gb/s, data interfaces: {_cell(row, 'data_nics')}"),
        *(("$ per chip hour", _price_line(row, price)) for price in row.prices),
        *(("  says", _said_by(source)) for source in dict.fromkeys(price.source for price in row.prices)),
        *(() if row.prices else [("$ per chip hour", _cell(row, "prices"))]),
        *(("quota", _quota_line(quota)) for quota in row.quotas),
        *(() if row.quotas else [("quota", _cell(row, "quotas"))]),
        ("zones in Google's docs", ", ".join(row.zones_documented) or _cell(row, "zones_documented")),
        ("zones", ", ".join(row.zones) or _cell(row, "zones")),
        *(("source", _said_by(source)) for source in row.sources),
    ]  # fmt: skip


def _machine_size(row: Accelerator) -> str:
    if row.machine is None:
        return _cell(row, "machine")
    return f"{row.machine.vcpus or UNKNOWN}, {row.machine.memory_gb or UNKNOWN} GB"


def _price_line(row: Accelerator, price: Price) -> str:
    return f"{price.region}: {_usd(row, price.on_demand_usd)} on demand, {_usd(row, price.spot_usd)} spot"


def _quota_line(quota: Quota) -> str:
    of = f" ({quota.dimension})" if quota.dimension else ""
    names = f"{quota.on_demand or UNKNOWN}, spot {quota.spot or UNKNOWN}{of}"
    return f"{quota.api}: {names}; {quota.units:,} {quota.unit} per {quota.scope}"


def _said_by(source: Source) -> str:
    read = f", read {source.read}" if source.read else ""
    return f"{source.title}, {source.date or 'date unknown'}{read}"
