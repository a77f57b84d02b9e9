"""Two hosts of one run whose output lies on a small file system: user and mount namespaces, real mounts, no root."""

from __future__ import annotations

import dataclasses
import shlex
import subprocess
import sys
from pathlib import Path

from tests.training.cluster import ROOT, free_port, launch_arguments, plain_environment
from training.host_status import HostStatus, read_status
from training.run_spec import RunSpec

_ENDS = "wait $pid0; echo rc $?; wait $pid1; echo rc $?; date +%s.%N > ended"


@dataclasses.dataclass(frozen=True)
class SmallDisk:
    """`directory` is empty; the hosts' own directories and the disk are made in it."""

    directory: Path
    cache: Path
    python: str = sys.executable  # with MaxText

    @property
    def disk(self) -> Path:
        return self.directory / "disk"

    def run(self, spec: RunSpec, size: str, meanwhile: str = ":") -> list[HostStatus]:
        """The last words of both, which are to fail.

        meanwhile: shell, beside the hosts, whose process ids are $pid0 and $pid1.
        """
        self.disk.mkdir()
        lines = [f"mount -t tmpfs -o size={size} none {shlex.quote(str(self.disk))}", self._hosts()]
        for index in range(2):
            host = self.directory / f"host{index}"
            host.mkdir()
            (host / "run_spec.yaml").write_text(spec.to_yaml())
        lines += [meanwhile, _ENDS]
        environ = {"SLIPWAY_HOST_COUNT": "2", "SLIPWAY_COORDINATOR": f"127.0.0.1:{free_port()}"}
        done = subprocess.run(
            ["unshare", "-Urm", "bash", "-c", "\n".join(lines)],
            cwd=self.directory,
            env=plain_environment() | environ | {"PYTHONPATH": str(ROOT), "DISK": str(self.disk)},
            capture_output=True,
            text=True,
            check=False,
        )
        codes = [line for line in done.stdout.splitlines() if line.startswith("rc ")]
        assert codes == ["rc 1", "rc 1"], done.stderr + self.log(0) + self.log(1)
        return [self._status(index) for index in range(2)]

    def log(self, index: int) -> str:
        return (self.directory / f"host{index}" / "log").read_text()[-4000:]

    def _hosts(self) -> str:
        """Each in a mount namespace of its own, in which what is mounted may change for it alone."""
        started: list[str] = []
        for index in range(2):
            command = [self.python, *launch_arguments(self.directory / f"host{index}", self.cache, 20)]
            host = f"SLIPWAY_HOST_INDEX={index} unshare -m {shlex.join(command)} >> host{index}/log 2>&1"
            started.append(f"{host} & pid{index}=$!")
        return "\n".join(started)

    def _status(self, index: int) -> HostStatus:
        status = read_status(self.directory / f"host{index}")
        assert status is not None
        return status
