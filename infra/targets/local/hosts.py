"""`Hosts` of target local: processes and files on this machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from infra.paths import of_stack
from infra.targets.local import host_directory
from infra.targets.local.host_directory import HostState
from training.run_spec import RunSpec, parse


class LocalHosts:
    """The hosts of one local stack. Raises LookupError for an index that does not exist."""

    def __init__(self, stack: str) -> None:
        self.stack = stack
        self._paths = of_stack(stack)

    def list(self) -> Sequence[HostState]:
        return host_directory.states(self._paths.hosts)

    def metrics(self, index: int) -> Iterator[dict[str, float]]:
        run = self.run_directory()
        path = run / "metrics" / f"host-{index}.jsonl" if run else None
        if path is None or not path.exists():
            return
        with path.open() as lines:
            for line in lines:
                if line.endswith("\n"):  # the last line may be half written
                    yield json.loads(line)

    def logs(self, index: int, follow: bool) -> Iterator[str]:
        host = self._host(index)
        with (host.directory / host_directory.LOG).open(errors="replace") as log:
            while True:
                line = log.readline()
                if line:
                    yield line.rstrip("\n")
                elif follow and host.record.process():
                    time.sleep(host_directory.POLL_S)
                elif not (line := log.readline()):  # once more: what was written between the last read and its end
                    return
                else:
                    yield line.rstrip("\n")

    def stop(self, progress: Callable[[str], None]) -> None:
        running = [host for host in self.list() if host.record.process()]
        for host in running:
            host_directory.ask_to_stop(host.directory)
        for host in running:
            host_directory.stop(
                host.directory, lambda text, index=host.record.index: progress(f"host {index}: {text}"), time.sleep
            )

    def start(self) -> None:
        every = self.list()
        if all(host.healthy for host in every):
            return
        for host in every:  # a run needs all its hosts: a survivor of a lost peer starts anew as well
            host_directory.stop(host.directory, lambda _: None, time.sleep)
        for host in every:
            host_directory.start(host.directory, host.record, (host.directory / host_directory.RUN_SPEC).read_text())

    def run_directory(self) -> Path | None:
        spec = self._run_spec()
        return Path(spec.output_directory) / spec.run_name if spec else None

    def _run_spec(self) -> RunSpec | None:
        path = self._paths.host(0) / host_directory.RUN_SPEC
        return parse(path.read_text()) if path.exists() else None

    def _host(self, index: int) -> HostState:
        found = {host.record.index: host for host in self.list()}
        if index not in found:
            there = ", ".join(map(str, found)) or "none; run `pulumi up` first"
            raise LookupError(f"stack '{self.stack}' has no host {index}; there are: {there}")
        return found[index]
