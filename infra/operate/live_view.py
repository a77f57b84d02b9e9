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

from infra.operate.loss_curve import draw
from infra.operate.stack_status import Losses, StackStatus, cells, line, losses, speed, status_of
from infra.paths import PREPARED
from infra.sentences import SentenceError
from infra.targets.hosts import Hosts
from infra.targets.phases import ABSENT
from infra.targets.places import below, in_bucket
from training.data.identity import DataError
from training.data.prepared import read_prepared
from training.host_status import Phase
from training.run_spec import RunSpec

_REFRESH_S = 0.5
_PLAIN_EVERY_S = 10.0
_COLOURS = {"training": "green", "finished": "green", "failed": "red", "lost": "red", "interrupted": "yellow"}


def follow(hosts: Hosts, console: Console) -> StackStatus:
    """Show training until it has ended; returns the last status. Ctrl-C raises KeyboardInterrupt and stops nothing."""
    status = _live(hosts, console) if console.is_terminal else _plain(hosts, console)
    console.print(summary(hosts, status, console.width if console.is_terminal else 100), soft_wrap=True)
    return status


def _live(hosts: Hosts, console: Console) -> StackStatus:
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        return _until_ended(hosts, lambda status: live.update(_screen(status)))


def _plain(hosts: Hosts, console: Console) -> StackStatus:
    printed: dict[int, tuple[str, float]] = {}

    def show(status: StackStatus) -> None:
        for host in status.hosts:
            phase, at = printed.get(host.index, ("", 0.0))
            if host.phase != phase or time.monotonic() - at >= _PLAIN_EVERY_S:
                printed[host.index] = (host.phase, time.monotonic())
                console.print(f"{status.stack} {line(host)}", highlight=False, soft_wrap=True)

    return _until_ended(hosts, show)


def _until_ended(hosts: Hosts, show: Callable[[StackStatus], None]) -> StackStatus:
    while True:
        status = status_of(hosts)
        show(status)
        if not status.running:
            return status
        time.sleep(_REFRESH_S)


def _screen(status: StackStatus) -> RenderableType:
    rows = Table.grid(padding=(0, 2))
    for host in status.hosts:
        rows.add_row(
            *(Text(cell, style=_COLOURS.get(host.phase, "") if i == 1 else "") for i, cell in enumerate(cells(host)))
        )
    done, total = status.step or 0, status.steps or 1
    bar = Table.grid(padding=(0, 2))
    bar.add_row(f"{status.stack}", ProgressBar(total=total, completed=done, width=40), f"{done}/{status.steps or '?'}")
    return Group(rows, bar, Text("Ctrl-C leaves training running", style="dim"))


def summary(hosts: Hosts, status: StackStatus, width: int) -> Text:
    """How it ended, the loss curve, where things are, and what to run next."""
    stack, run, spec = hosts.stack, hosts.run_location(), hosts.run_spec()
    if (status.phase == ABSENT and not status.hosts) or run is None or spec is None:
        unread = f" (what was there is not known: {status.unread})" if status.unread else ""
        return Text(f"stack '{stack}' has no hosts; start them with: make up STACK={stack}{unread}")
    lines = [_verdict(status)]
    try:
        run_losses = losses(hosts.metrics(0))
    except SentenceError as error:
        run_losses = Losses((), ())
        lines += ["", f"its losses are not known: {error}"]
    if run_losses.train:
        first, last = run_losses.train[0][1], run_losses.train[-1][1]
        at_speed = "".join(f", {said}" for said in [speed(status.hosts[0])] if said)
        lines += ["", draw(run_losses, width), "", f"training loss {first:.3f} -> {last:.3f} nats per token{at_speed}"]
    lines += [
        "",
        *_heldout_lines(run_losses, spec),
        f"checkpoints  {below(run, 'checkpoints')}",
        f"metrics      {below(run, 'metrics')}",
        f"record       {below(run, 'record.json')}",
        "",
        *_next(status),
    ]
    return Text.from_ansi("\n".join(lines))


def _verdict(status: StackStatus) -> str:
    if status.phase == Phase.FINISHED:
        return f"{status.stack} finished: step {status.step} of {status.steps}"
    at = f" at step {status.step} of {status.steps}" if status.step is not None else ""
    if status.phase == ABSENT:
        return f"{status.stack} is not deployed; its run ended{at}" + (f": {status.reason}" if status.reason else "")
    return f"{status.stack} {status.phase}{at}" + (f": {status.reason}" if status.reason else "")


def _heldout_lines(run_losses: Losses, spec: RunSpec) -> list[str]:
    data = spec.data
    if data is None or not run_losses.heldout:
        return []
    try:
        directory = PREPARED / data.content if in_bucket(data.directory) else Path(data.directory)
        entropy = read_prepared(directory, data.content).heldout.unigram_entropy_nats
    except DataError:
        return []
    step, loss = run_losses.heldout[-1]
    compared = ""
    if entropy is not None:
        side = "below" if loss <= entropy else "above"
        compared = f": {abs(entropy - loss):.2f} {side} the unigram entropy of the same split ({entropy:.3f})"
    return [f"held-out loss {loss:.3f} nats per token after step {step + 1}{compared}", ""]


def _next(status: StackStatus) -> list[str]:
    stack = status.stack
    if status.phase == ABSENT:
        return [f"go on         make up STACK={stack}      (from its last checkpoint)"]
    take_down = f"take it down   make destroy STACK={stack}      (keeps checkpoints and data)"
    if status.phase == Phase.FINISHED:
        longer = f"train longer   raise `slipway:steps` in stacks/Pulumi.{stack}.yaml, then: make up STACK={stack}"
        return [longer, take_down]
    read_log = f"read the log   .venv/bin/slipway logs {stack} --host 0"
    return [f"resume         .venv/bin/slipway start {stack}", read_log, take_down]
