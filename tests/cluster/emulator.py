"""`slipway emulate cluster` as somebody starts it, and kubectl as its lines say to call it."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.paths import ROOT, TOOLS


@dataclass(frozen=True)
class Emulator:
    """`said`: what is before the first colon of each line that it prints, and what is after it."""

    process: subprocess.Popen[str]
    state: Path
    said: dict[str, str]

    @property
    def kubeconfig(self) -> Path:
        return Path(self.said["in another shell"].partition("KUBECONFIG=")[2])

    @property
    def of_gke(self) -> dict[str, str]:
        """What stacks of GKE need in their environment."""
        return dict(each.split("=", 1) for each in self.said["for stacks of GKE"].removeprefix("export ").split())

    def run(self, command: Iterable[str], given: str = "") -> str:
        """What it prints, in the shell that the emulator speaks of."""
        cache = str(self.state / "kubectl-cache")  # else below the home, or here
        environment = {"KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": cache}
        done = subprocess.run(
            list(command), env=environment, input=given, stdout=subprocess.PIPE, text=True, check=True
        )
        return done.stdout

    def kubectl(self, *arguments: str, given: str = "") -> str:
        return self.run([self.said["there"].partition(" ")[0], *arguments], given)

    def pods_that_run(self, selector: str = "") -> int:
        """In all namespaces, of these labels; to wait for them so costs a tenth of what `slipway status` does."""
        running = ("--all-namespaces", "--field-selector=status.phase=Running", f"--selector={selector}")
        return len(self.kubectl("get", "pods", *running, "--output=name").split())

    def apply(self, declared: Iterable[dict[str, Any]]) -> None:
        documents = "\n---\n".join(map(json.dumps, declared))
        self.kubectl("apply", "--server-side", "--validate=strict", "--filename=-", given=documents)


@contextlib.contextmanager
def emulate(state: Path, *options: str) -> Iterator[Emulator]:
    """Ready, with its state in that directory; killed at the end, whatever fails meanwhile."""
    command = [str(TOOLS / "slipway"), "emulate", "cluster", "--state", str(state), *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            said = dict[str, str]()
            for line in process.stdout:
                before, _, after = line.strip().partition(": ")
                said[before] = after
                if "Ctrl-C ends it" in line:
                    break
            yield Emulator(process, state, said)
        finally:
            process.kill()
