"""Keeps emulated hosts as the cloud's nodes are: a host of each worker of a node that is READY, none of any other.

Owns what follows of a node's state for its hosts: power, disk, token, guest attributes. Refuses to own that state
(infra/emulators/tpu_api/), who a host is (identity.py) and what one is made of (host.py).
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from infra.emulators.http_server import HttpEmulator
from infra.emulators.tpu_api import GuestAttribute, NodeState, TpuApi
from infra.emulators.tpu_api.levers import instance_name
from infra.emulators.tpu_hosts import network, view
from infra.emulators.tpu_hosts.host import POWER_OFF_S, CloudAccess, EmulatedHost, HostRoot
from infra.emulators.tpu_hosts.identity import HostIdentity, identity
from infra.emulators.tpu_hosts.network import Bridge
from infra.emulators.tpu_hosts.view import SharedDirectory
from training.host_status import read_status

_BROKEN = (NodeState.REPAIRING, NodeState.UNKNOWN)  # the machine below its hosts is; their disks are not
_PAUSE_S = 0.1
_STATUS = Path("var", "lib", "slipway", "host")  # where hosts write how far they are: infra/vm_hosts/startup.sh


@dataclass
class _Running:
    """A host that is on. `ends`: it was told to."""

    host: EmulatedHost
    boots: int
    ends: bool = False


@dataclass(frozen=True)
class _Cloud:
    """What the cloud says now, by names of hosts: which are to be on, have a disk, are preempted, are broken."""

    wanted: Mapping[str, HostIdentity]
    disks: frozenset[str]
    preempted: frozenset[str]
    broken: frozenset[str]


@dataclass
class Fleet:
    """Context manager: hosts of `api`'s nodes, below `directory`. `endpoints`: variables that every host has.

    `isolated`: each has a network of its own, where `servers` listen too, and, where that is permitted, a root of its
    own with `shared` directories of this machine in it; else all have this machine's.
    """

    api: TpuApi
    directory: Path
    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])
    servers: Sequence[HttpEmulator] = ()
    isolated: bool = field(default_factory=network.permitted)
    tokens: dict[str, str] = field(default_factory=dict[str, str])  # of hosts that are on: their accounts
    shared: Sequence[SharedDirectory] = ()

    def __post_init__(self) -> None:
        self.directory = self.directory.resolve()
        self._bridge = Bridge() if self.isolated else None
        self._root = self._make_root() if self.has_roots else None
        ledger = self.api.cloud.ledger
        ledger.hosts_boot, ledger.hosts_on_loopback = True, not self.isolated
        self.api.cloud.levers.status_of = lambda instance: read_status(self.directory / instance / _STATUS)
        self._running = dict[str, _Running]()
        self._off = dict[str, EmulatedHost]()  # they have a disk until their node is deleted
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="emulated hosts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        for running in self._running.values():
            running.host.kill()
        if self._bridge:
            self._bridge.close()
        if self._root:
            shutil.rmtree(self._root.image)

    @property
    def has_roots(self) -> bool:
        """Whether hosts have file systems of their own."""
        return self.isolated and view.permitted()

    def _make_root(self) -> HostRoot:
        image = self.directory.with_name(f"{self.directory.name}.image")
        shutil.rmtree(image, ignore_errors=True)  # of an emulator that was killed
        view.make_image(image)
        for each in self.shared:
            each.path.mkdir(parents=True, exist_ok=True)
            if each.is_writable:
                view.open_to_all(each.path)
        return HostRoot(image, self.shared)

    def host(self, name: str) -> EmulatedHost:
        """By its instance's name; on, or about to end. Raises KeyError."""
        return self._running[name].host

    def _run(self) -> None:
        try:
            while not self._ends.wait(_PAUSE_S):
                self._step()
        except BaseException as error:  # an error of the emulator's own, which ends whoever uses it
            self.api.errors.append(error)
            raise

    def _step(self) -> None:
        with self.api.lock:
            self.api.tick()
            cloud = self._look()
        for name, running in list(self._running.items()):
            self._keep(cloud, name, running)
        for name in self._off.keys() - cloud.disks:
            self._off.pop(name).wipe()
        for name, wanted in cloud.wanted.items():
            if name not in self._running:
                self._boot(wanted)

    def _look(self) -> _Cloud:
        ledger = self.api.cloud.ledger
        nodes = [node for node in ledger.nodes.values() if ledger.boots(node.accelerator)]
        hosts = [(node, worker) for node in nodes for worker in range(len(node.hosts))]
        wanted = [identity(ledger, node, worker) for node, worker in hosts if node.state is NodeState.READY]

        def names(*states: NodeState) -> frozenset[str]:
            return frozenset(instance_name(*host) for host in hosts if host[0].state in states)

        return _Cloud(
            {each.name: each for each in wanted}, names(*NodeState), names(NodeState.PREEMPTED), names(*_BROKEN)
        )

    def _keep(self, cloud: _Cloud, name: str, running: _Running) -> None:
        """As the cloud says; whoever boots anew ends first."""
        wanted, host = cloud.wanted.get(name), running.host
        if running.ends:
            if host.is_off:
                self._forget(name, host)
        elif wanted and wanted.boots == running.boots:
            host.metadata.set_attributes(wanted.attributes)
            host.metadata.set_values(wanted.values)
            if host.cable:
                host.cable.switch(wanted.connected)
        else:
            if name in cloud.preempted:
                host.metadata.change("instance/preempted", "TRUE")
            host.power_off(0.0 if name in cloud.broken else POWER_OFF_S)
            running.ends = True

    def _forget(self, name: str, host: EmulatedHost) -> None:
        self.api.errors += host.metadata.errors
        del self.tokens[host.metadata.token], self._running[name]
        self._off[name] = host

    def _boot(self, wanted: HostIdentity) -> None:
        token = f"ya29.{secrets.token_urlsafe(48)}"
        self.tokens[token] = wanted.email
        cable = self._bridge.attach(wanted.address) if self._bridge else None
        access = CloudAccess(token, self.endpoints, self.servers, self._publish, cable, self._root)
        host = EmulatedHost(self.directory / wanted.name, wanted, access)
        self._running[wanted.name] = _Running(host, wanted.boots)
        self._off.pop(wanted.name, None)
        host.power_on()

    def _publish(self, who: HostIdentity, namespace: str, key: str, value: str | None) -> None:
        """A guest attribute, as the TPU API answers it from now on; None: it was deleted."""
        levers, host = self.api.cloud.levers, (who.node, who.worker)
        with self.api.lock, contextlib.suppress(ValueError):  # the node is gone
            if value is None:
                levers.remove_guest_attribute(*host, namespace, key)
            else:
                levers.set_guest_attribute(*host, GuestAttribute(namespace, key, value))
