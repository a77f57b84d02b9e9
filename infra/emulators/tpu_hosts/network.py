"""The network of emulated hosts: a namespace of its own for each, joined by a bridge in one more.

Owns namespaces, addresses, names and cables. A host reaches the others by their addresses and what listens in its
namespace, and nothing of this machine; elsewhere nobody answers. Refuses to own what listens there (host.py). Needs
root's rights over networks (`permitted`). Namespaces and what is in them are gone with the last process or file that
has them.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

METADATA = "169.254.169.254"  # where Google's metadata server is
RESOLVER = "198.51.100.53"  # an address of documentation (RFC 5737), where nobody is
# A name of its own, and names that resolve: <name> <file> <command>...
_AS_HOST = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'


class NetworkError(RuntimeError):
    """`ip` refused; the message is its own."""


class Namespace:
    """A network namespace; loopback is up."""

    def __init__(self) -> None:
        self.file = _in_a_thread(_new_namespace)
        self.ip("link", "set", "lo", "up")

    def ip(self, *arguments: str, files: Sequence[int] = ()) -> None:
        """Runs `ip` in it. Raises NetworkError."""
        command = ["ip", *arguments]
        done = subprocess.run(
            command, preexec_fn=self.enter, pass_fds=files, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NetworkError(f"{' '.join(command)}: {done.stderr.strip()}")

    def enter(self) -> None:
        """The calling thread, and all that it starts, is in it from now on: for a child before it becomes a program."""
        os.setns(self.file, os.CLONE_NEWNET)

    def do[Result](self, act: Callable[[], Result]) -> Result:
        """What `act` returns, done in it: a socket that it opens stays there."""

        def inside() -> Result:
            self.enter()
            return act()

        return _in_a_thread(inside)

    def close(self) -> None:
        os.close(self.file)


@dataclass
class Bridge:
    """What joins the hosts of a cloud."""

    namespace: Namespace = field(default_factory=Namespace)
    _cables: int = 0

    def __post_init__(self) -> None:
        self.namespace.ip("link", "add", "cloud", "type", "bridge")
        self.namespace.ip("link", "set", "cloud", "up")

    def attach(self, address: str) -> Cable:
        """A namespace with this address on its way to the others, and Google's metadata address."""
        self._cables += 1
        name, host = f"host{self._cables}", Namespace()
        end = ("peer", "name", "eth0", "netns", f"/proc/self/fd/{host.file}")
        self.namespace.ip("link", "add", name, "type", "veth", *end, files=(host.file,))
        self.namespace.ip("link", "set", name, "master", "cloud", "up")
        host.ip("address", "add", f"{address}/8", "dev", "eth0")
        host.ip("address", "add", f"{METADATA}/32", "dev", "lo")
        host.ip("link", "set", "eth0", "up")
        # Of a private subnet: what asks for an address elsewhere waits, and is seen by `sought`.
        host.ip("route", "add", "default", "dev", "eth0")
        return Cable(name, self, host)

    def close(self) -> None:
        self.namespace.close()


@dataclass
class Cable:
    """Between a host's namespace and the bridge."""

    name: str
    bridge: Bridge
    host: Namespace
    is_up: bool = True

    def switch(self, up: bool) -> None:
        if up != self.is_up:
            self.bridge.namespace.ip("link", "set", self.name, "up" if up else "down")
            self.is_up = up

    def close(self) -> None:
        self.host.close()


def as_host(name: str, names: Path, command: Sequence[str]) -> list[str]:
    """The command on a machine of that name, with `names` as /etc/hosts; in a host's namespace (`enter`)."""
    unshared = ("unshare", "--mount", "--uts", "--propagation", "private")
    return [*unshared, "bash", "-euc", _AS_HOST, "bash", name, str(names), *command]


def beside[Result](pid: int, act: Callable[[], Result]) -> Result:
    """What `act` returns, done in the namespace of a process."""

    def inside() -> Result:
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        os.setns(namespace, os.CLONE_NEWNET)
        os.close(namespace)
        return act()

    return _in_a_thread(inside)


def sought() -> set[str]:
    """Addresses that a host has looked for in vain on its network, told in its namespace."""
    listed = subprocess.run(
        ["ip", "-4", "neighbour", "show", "dev", "eth0"], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return {row[0] for row in rows if row[-1] in ("INCOMPLETE", "FAILED")}


def names_text(name: str, address: str) -> str:
    """What /etc/hosts says on a host."""
    return f"127.0.0.1 localhost\n{METADATA} metadata.google.internal metadata\n{address} {name}\n"


@cache
def permitted() -> bool:
    """Whether this process may have such a network."""
    try:
        bridge = Bridge()
        bridge.attach("10.0.0.1").close()
        subprocess.run(as_host("a-host", Path("/etc/hosts"), ["true"]), capture_output=True, check=True)
    except (OSError, NetworkError, subprocess.CalledProcessError):
        return False
    bridge.close()
    return True


def _new_namespace() -> int:
    os.unshare(os.CLONE_NEWNET)
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _in_a_thread[Result](act: Callable[[], Result]) -> Result:
    """A thread of its own, since what it enters it never leaves. Raises what `act` raises."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(act).result()
