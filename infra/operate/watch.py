"""`slipway watch`: one live line per host, a progress bar, and the summary at the end. Plain lines where piped."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from infra.operate.hosts import Hosts
from infra.operate.loss_curve import draw
from infra.operate.report import ABSENT, HostRow, Losses, StackReport, losses, stack_report
from infra.targets.local.host_directory import FINISHED, RUN_SPEC
from training.data.identity import DataError
from training.data.prepared import read_prepared
from training.run_spec import DataSpec, parse

_REFRESH_S = 0.5
_PLAIN_EVERY_S = 10.0
_COLOURS = {"training": "green", "finished": "green", "failed": "red", "lost": "red", "interrupted": "yellow"}


def watch(hosts: Hosts, console: Console) -> StackReport:
    """Show training until it has ended; returns the last report. Ctrl-C raises KeyboardInterrupt and stops nothing."""
    report = _live(hosts, console) if console.is_terminal else _plain(hosts, console)
    console.print(summary(hosts, report, console.width if console.is_terminal else 100), soft_wrap=True)
    return report


def _live(hosts: Hosts, console: Console) -> StackReport:
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        return _until_ended(hosts, lambda report: live.update(_screen(report)))


def _plain(hosts: Hosts, console: Console) -> StackReport:
    said: dict[int, tuple[str, float]] = {}

    def show(report: StackReport) -> None:
        for host in report.hosts:
            phase, at = said.get(host.index, ("", 0.0))
            if host.phase != phase or time.monotonic() - at >= _PLAIN_EVERY_S:
                said[host.index] = (host.phase, time.monotonic())
                console.print(f"{report.stack} {_line(host)}", highlight=False, soft_wrap=True)

    return _until_ended(hosts, show)


def _until_ended(hosts: Hosts, show: Callable[[StackReport], None]) -> StackReport:
    while True:
        report = stack_report(hosts.stack, hosts.list())
        show(report)
        if not report.running:
            return report
        time.sleep(_REFRESH_S)


def _screen(report: StackReport) -> RenderableType:
    rows = Table.grid(padding=(0, 2))
    for host in report.hosts:
        rows.add_row(
            *(Text(cell, style=_COLOURS.get(host.phase, "") if i == 1 else "") for i, cell in enumerate(cells(host)))
        )
    done, total = report.step or 0, report.steps or 1
    bar = Table.grid(padding=(0, 2))
    bar.add_row(f"{report.stack}", ProgressBar(total=total, completed=done, width=40), f"{done}/{report.steps or '?'}")
    return Group(rows, bar, Text("Ctrl-C leaves training running", style="dim"))


def cells(host: HostRow) -> tuple[str, ...]:
    """What one line says of a host."""
    step = f"step {host.step}/{host.steps}" if host.step is not None else ""
    loss = f"loss {host.loss:.3f}" if host.loss is not None else ""
    speed = f"{host.tokens_per_s:,.0f} tokens/s" if host.tokens_per_s is not None else ""
    eta = f"ETA {duration(host.eta_s)}" if host.eta_s is not None else ""
    return (f"host {host.index}", host.phase, step, loss, speed, eta, host.reason)


def _line(host: HostRow) -> str:
    return " · ".join(cell for cell in cells(host) if cell)


def duration(seconds: float) -> str:
    """`3m07s` or `2h05m`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def summary(hosts: Hosts, report: StackReport, width: int) -> Text:
    """How it ended, the loss curve, where things are, and what to run next."""
    stack, run = hosts.stack, hosts.run_directory()
    if report.phase == ABSENT or run is None:
        return Text(f"stack '{stack}' has no hosts; start them with: make up STACK={stack}")
    seen = losses(hosts.metrics(0))
    lines = [_verdict(report)]
    if seen.train:
        lines += ["", draw(seen, width), "", *_loss_lines(seen, report.hosts[0])]
    lines += ["", *_heldout_lines(seen, _data(hosts))]
    lines += [
        f"checkpoints  {run / 'checkpoints'}",
        f"metrics      {run / 'metrics'}",
        f"record       {run / 'record.json'}",
        "",
    ]
    return Text.from_ansi("\n".join([*lines, *_next(report)]))


def _verdict(report: StackReport) -> str:
    if report.phase == FINISHED:
        return f"{report.stack} finished: step {report.step} of {report.steps}"
    at = f" at step {report.step} of {report.steps}" if report.step is not None else ""
    return f"{report.stack} {report.phase}{at}" + (f": {report.reason}" if report.reason else "")


def _loss_lines(seen: Losses, host: HostRow) -> list[str]:
    speed = f", {host.tokens_per_s:,.0f} tokens/s" if host.tokens_per_s is not None else ""
    return [f"training loss {seen.train[0][1]:.3f} -> {seen.train[-1][1]:.3f} nats per token{speed}"]


def _data(hosts: Hosts) -> DataSpec | None:
    states = hosts.list()
    return parse((states[0].directory / RUN_SPEC).read_text()).data if states else None


def _heldout_lines(seen: Losses, data: DataSpec | None) -> list[str]:
    if data is None or not seen.heldout:
        return []
    try:
        entropy = read_prepared(Path(data.directory), data.content).heldout.unigram_entropy_nats
    except DataError:
        return []
    step, loss = seen.heldout[-1]
    if entropy is None:
        return [f"held-out loss {loss:.3f} nats per token after step {step + 1}"]
    gap = entropy - loss
    side = "below" if gap >= 0 else "above"
    return [
        f"held-out loss {loss:.3f} nats per token after step {step + 1}: {abs(gap):.2f} {side} the unigram entropy "
        f"of the same split ({entropy:.3f})",
        "",
    ]


def _next(report: StackReport) -> list[str]:
    stack = report.stack
    if report.phase == FINISHED:
        return [
            f"train longer   raise `slipway:steps` in stacks/Pulumi.{stack}.yaml, then: make up STACK={stack}",
            f"take it down   make destroy STACK={stack}      (keeps checkpoints and data)",
        ]
    return [
        f"resume         .venv/bin/slipway start {stack}",
        f"read the log   .venv/bin/slipway logs {stack} --host 0",
        f"take it down   make destroy STACK={stack}      (keeps checkpoints and data)",
    ]
