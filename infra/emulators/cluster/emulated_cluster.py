"""One emulated cluster, from the first process to the last: its control plane, what is applied to it, its nodes.

Owns the order. Everything is asked whether it is ready, nothing is waited for by the clock. Refuses to own what the
command prints (infra/commands/emulate.py).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import random
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import yaml

from infra.emulators.cluster import api_accounts, components, installed_webhooks, manifests, nodes
from infra.emulators.cluster.built_programs import ClusterPrograms, Manifest
from infra.emulators.cluster.components import HOST, Layout, Ports
from infra.emulators.cluster.nodes import POOL, NodePool
from infra.emulators.cluster.processes import Processes
from infra.sentences import SentenceError

# Below the range from which Linux takes ports for connections, which would be gone when a component wants its own.
_PORTS = range(20000, 32768)
_LIMIT_S = 300.0  # which only a hang reaches
_PAUSE_S = 0.2


class ClusterError(SentenceError):
    """The cluster cannot be started, or refuses what is applied to it."""


@dataclass(frozen=True)
class EmulatedCluster:
    """A cluster that is ready."""

    layout: Layout
    processes: Processes

    def kubectl(self, *arguments: str, given: str = "") -> str:
        """What kubectl prints, as the cluster's administrator. Raises ClusterError with what it complains of."""
        program = str(self.layout.programs.path("kubectl"))
        cache = self.layout.directory / "kubectl-cache"  # else below the home of whoever starts it, for each port
        done = subprocess.run(
            [program, f"--kubeconfig={self.layout.kubeconfig}", f"--cache-dir={cache}", *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            self.processes.check()
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, each: Iterable[Manifest]) -> None:
        """As it is written, an unknown field refused."""
        self.kubectl("apply", "--server-side", "--validate=strict", "--filename=-", given=yaml.safe_dump_all(each))

    def add(self, pools: Sequence[NodePool]) -> None:
        """Their nodes, but those that are there; returns when all are ready."""
        if made := nodes.missing(pools, self._nodes()):
            # Not applied: who applies to a node does not own its status, and its capacity is there.
            self.kubectl("create", "--filename=-", given=yaml.safe_dump_all(made))
        # All at once: `kubectl wait` asks for one after the other, a minute for 256.
        self._wait(lambda: nodes.not_ready(self._nodes()), "kwok")

    def change_pool(self, name: str, pools: Sequence[NodePool]) -> None:
        """Its nodes are those of `pools` from now on; returns when all are ready."""
        wanted = {node for pool in pools for node in pool.node_names}
        there = {each["metadata"]["name"] for each in self._nodes() if each["metadata"]["labels"].get(POOL) == name}
        if gone := sorted(there - wanted):
            self.kubectl("delete", "node", "--ignore-not-found", *gone)
        self.add(pools)

    def wait_for_kinds(self) -> None:
        """Until every kind that was applied is one of the API server's.

        `kubectl wait` fails at a definition of which nothing is said yet.
        """
        self._wait(lambda: manifests.not_established(self._all("crds")), "kube-apiserver")

    def _wait(self, lacking: Callable[[], Sequence[str]], component: str) -> None:
        ends = time.monotonic() + _LIMIT_S
        while waiting := lacking():
            self.processes.check()
            if time.monotonic() > ends:
                raise ClusterError(f"not ready: {', '.join(waiting)}; see {self.layout.log(component)}")
            time.sleep(_PAUSE_S)

    def _nodes(self) -> list[Manifest]:
        return self._all("nodes")

    def _all(self, kind: str) -> list[Manifest]:
        return json.loads(self.kubectl("get", kind, "--output=json"))["items"]


@contextlib.contextmanager
def run(
    directory: Path,
    programs: ClusterPrograms,
    pools: Sequence[NodePool] = (),
    port: int = 0,
    keeps: bool = False,
    kueue: bool = False,
) -> Generator[EmulatedCluster]:
    """A cluster with these pools until the context ends. port: of the API server; 0 takes any.

    keeps: `directory` holds its state, from an earlier start or for a later one; else it is a new one's. kueue: whether
    Kueue is one of its controllers, as it is wherever it was one at an earlier start.
    Raises ClusterError, ComponentError.
    """
    directory = directory.resolve()
    with reserved(directory):
        layout = Layout(directory, programs, _ports(port), keeps)
        layout = replace(layout, has_kueue=kueue or layout.configuration("kueue").exists())
        layout.certificates.make()
        tokens = api_accounts.write(directory, layout.server, layout.certificates.authority)
        _configure(layout)
        with Processes(directory, layout.log, layout.certificates.authority) as processes:
            cluster = EmulatedCluster(layout, processes)
            _start(cluster, tokens)
            cluster.add(pools)
            with installed_webhooks.led_to_this_machine(layout):
                yield cluster


def _configure(layout: Layout) -> None:
    documents = {"jobset": [components.jobset_configuration(layout)], "kwok": manifests.stages(layout)}
    if layout.has_kueue:
        documents["kueue"] = [components.kueue_configuration(layout)]
    for name, each in documents.items():
        layout.configuration(name).write_text(yaml.safe_dump_all(each), encoding="utf-8")


def _start(cluster: EmulatedCluster, tokens: Path) -> None:
    layout, processes = cluster.layout, cluster.processes
    for component in (components.etcd(layout), components.api_server(layout, tokens)):
        processes.start(component)
        processes.wait_ready(component)
    later = [components.controllers(layout), components.scheduler(layout)]
    for component in later:
        processes.start(component)
    cluster.apply(manifests.kinds(layout))
    cluster.wait_for_kinds()
    cluster.kubectl("wait", "--for=create", "namespace/kube-system", "--timeout=300s")
    cluster.apply(manifests.accesses(layout))
    kueue = [components.kueue(layout)] if layout.has_kueue else []
    for component in (components.jobset(layout), components.kwok(layout), *kueue):
        processes.start(component)
        later.append(component)
    for component in later:
        processes.wait_ready(component)


@contextlib.contextmanager
def reserved(directory: Path) -> Generator[None]:
    """For this cluster alone: a second one on the same state would wait for ever for etcd's lock."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterError(f"{directory} is the state of a cluster that runs; give another with --state") from None
        yield


def _ports(port: int) -> Ports:
    """Free ones. Raises ClusterError where `port` is not."""
    if port and not _is_free(port):
        raise ClusterError(f"port {port} cannot be used; give another one with --port")
    free = (each for each in random.sample(_PORTS, len(_PORTS)) if each != port and _is_free(each))
    others = {each.name: next(free) for each in fields(Ports)}
    return Ports(**others | ({"api": port} if port else {}))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True
