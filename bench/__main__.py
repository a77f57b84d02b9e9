"""`make bench [ONLY=name]`: run the benchmarks, print a table, write .slipway/bench.json.

Each module of this folder with a `figures()` is one benchmark; ONLY names a module or the start of a figure's name.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys

from rich.console import Console
from rich.table import Table

from bench.record import Figure
from infra.paths import WORK

# Cheap ones first; each entry is a module of this folder.
BENCHMARKS = (
    "command_start",
    "preview",
    "preview_foundation",
    "preview_tpu_vm",
    "preview_gke",
    "cluster_hosts",
    "imported_jobs",
    "tpu_requests",
    "safe_money",
    "vertex",
    "bootstrap",
    "booted_host",
    "preempted_slice",
    "bucket_checkpoint",
    "data_prepare",
    "data_copy",
    "warm_up",
    "step_speed",
    "endings",
    "load",
    "gpu_fit",
    "fit",
    "fresh_clone",
    "suite",
)


def main(arguments: list[str]) -> int:
    """Run what was asked for; the exit code is 1 if a figure is out of its reach."""
    only = arguments[0] if arguments else ""
    chosen = [name for name in BENCHMARKS if only in ("", name)]
    if not chosen:
        print(f"no benchmark '{only}'; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    console = Console()
    measured: list[Figure] = []
    for name in chosen:
        console.print(f"[dim]measuring {name} ...[/]")
        measured += importlib.import_module(f"bench.{name}").figures()
    console.print(table(measured))
    write(measured)
    return 0 if all(figure.ok for figure in measured) else 1


def table(measured: list[Figure]) -> Table:
    rows = Table("figure", "median", "range", "n", "unit", "reach", "ok")
    for figure in measured:
        low, high = figure.detail.get("range", (figure.value, figure.value))
        n = int(figure.detail.get("n", 1))
        spread = f"{low:.4g} .. {high:.4g}" if n > 1 else ""
        ok = "yes" if figure.ok else "NO"
        rows.add_row(figure.name, f"{figure.value:.4g}", spread, str(n), figure.unit, figure.reach, ok)
    return rows


def write(measured: list[Figure]) -> None:
    """Replace the measured figures in .slipway/bench.json and keep the others."""
    path = WORK / "bench.json"
    known = {entry["name"]: entry for entry in json.loads(path.read_text())} if path.exists() else {}
    known |= {figure.name: dataclasses.asdict(figure) for figure in measured}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(list(known.values()), indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
