"""`Hosts` of target local: processes and files on this machine, and once they are gone what its newest run has left."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from infra.paths import RUN_SPEC, StackPaths, stack_file
from infra.runs import records, run_history
from infra.stack_file import stack_yaml
from infra.targets.errors import TargetError
from infra.targets.hosts import Hosts, HostView
from infra.targets.local import host_directory
from infra.targets.local.host_directory import HostState
from infra.targets.phases import RUNNING
from training.run_spec import RunSpec, parse
from training.step_record import read_record, step_record


class LocalHosts(Hosts):
    """The hosts of one local stack."""

    def __init__(self, stack: str, paths: StackPaths) -> None:
        super().__init__(stack)
        self._paths = paths

    def states(self) -> Sequence[HostView]:
        spec = self.run_spec()
        return [_view(host, spec.hosts_per_slice if spec else 1) for host in self._states()]

    def left_behind(self) -> Sequence[HostView]:
        spec = self.run_spec()
        return run_history.last_words(spec) if spec else ()

    def metrics(self, index: int) -> Iterator[dict[str, float]]:
        spec = self.run_spec()
        if spec:
            yield from read_record(step_record(spec.output_directory, spec.run_name, index))

    def logs(self, index: int, follow: bool) -> Iterator[str]:
        by_index = {host.record.index: host for host in self._states()}
        if index not in by_index:
            there = ", ".join(map(str, by_index)) or "none; run `pulumi up` first"
            raise LookupError(f"stack '{self.stack}' has no host {index}; there are: {there}")
        host = by_index[index]
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
        running = [host for host in self._states() if host.record.process()]
        for host in running:
            host_directory.ask_to_stop(host.directory)
        for host in running:
            host_directory.stop(
                host.directory, lambda text, index=host.record.index: progress(f"host {index}: {text}"), time.sleep
            )

    def start(self) -> None:
        every = self._states()
        if all(host.healthy for host in every):
            return
        for host in every:  # a run needs all its hosts: a survivor of a lost peer starts anew as well
            host_directory.stop(host.directory, lambda _: None, time.sleep)
        for host in every:
            host_directory.start(host.directory, host.record, (host.directory / host_directory.RUN_SPEC).read_text())

    def replay(self, step: int) -> int:
        """By what the hosts have installed. Raises TargetError while they run, or before they have begun."""
        every = self._states()
        if any(host.phase in RUNNING for host in every):
            raise TargetError(f"stack '{self.stack}' is running; first run: slipway stop {self.stack}")
        for host in every:
            if process := host.record.process():
                process.wait()  # after its last word it takes leave of the others, or writes what a bad step read
        first = next(iter(every), None)
        bundle = first.directory / "bundle" if first else Path()  # as bootstrap.sh links it
        if first is None or not (bundle / "training" / "replay.py").exists():
            raise TargetError(f"nothing that can be replayed is deployed; first run: make up STACK={self.stack}")
        python = Path(first.record.root, "env", (bundle / "wheelhouse").read_text().strip(), "bin", "python")
        options = ["--step", str(step), "--cache-dir", first.record.cache]
        command = [python, "-m", "training.replay", RUN_SPEC, *options]
        return subprocess.run(command, cwd=bundle, env=host_directory.environment(first.record), check=False).returncode

    def run_spec(self) -> RunSpec | None:
        path = self._paths.host(0) / host_directory.RUN_SPEC
        return parse(path.read_text()) if path.exists() else records.newest_spec(self._runs())

    def kept_runs(self) -> Sequence[str]:
        runs = self._runs()
        return sorted(map(str, runs.iterdir())) if runs.is_dir() else []

    def delete_kept_runs(self) -> None:
        shutil.rmtree(self._runs())

    def _runs(self) -> Path:
        """Where the stack file says, which may be gone, or have a mistake in another key."""
        file = stack_file(self.stack)
        named = stack_yaml.written(file.read_text(encoding="utf-8")).get("runs") if file.exists() else None
        return Path(named, self.stack) if named else self._paths.runs

    def _states(self) -> Sequence[HostState]:
        return host_directory.states(self._paths.hosts)


def _view(host: HostState, hosts_per_slice: int) -> HostView:
    record, status = host.record, host.status
    view = HostView(
        index=record.index,
        slice=record.index // hosts_per_slice,
        name=f"host-{record.index}",
        phase=host.phase,
        reason=host.reason,
        bundle=record.bundle,
        age_s=max(0.0, time.time() - (status.updated if status else record.started)),
        detail={"pid": record.pid if host.phase in RUNNING else None},
    )
    return view.saying(status)
