"""Networks of emulated hosts, with the kernel's own namespaces: who reaches whom."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from infra.emulators.tpu_hosts.network import Bridge, Cable, NetworkError, sought
from tests.engine.project import until

type Attach = Callable[[str], Cable]


@pytest.fixture
def attach() -> Iterator[Attach]:
    bridge, cables = Bridge(), list[Cable]()

    def attach(address: str) -> Cable:
        cables.append(bridge.attach(address))
        return cables[-1]

    yield attach
    for each in (*cables, bridge):
        each.close()


def reaches(host: Cable, address: str, port: int) -> bool:
    try:
        host.host.do(partial(socket.create_connection, (address, port), 0.5)).close()
    except OSError:
        return False
    return True


def test_hosts_reach_each_other_until_one_is_cut_off(attach: Attach) -> None:
    """JAX's port is each host's own."""
    hosts = {address: attach(address) for address in ("10.1.0.0", "10.1.0.1")}
    listening = [cable.host.do(partial(socket.create_server, ("", 8482))) for cable in hosts.values()]
    first, second = hosts.values()
    with listening[0], listening[1]:
        until(lambda: reaches(first, "10.1.0.1", 8482) and reaches(second, "10.1.0.0", 8482), "the links are up")
        second.switch(up=False)
        until(lambda: not reaches(first, "10.1.0.1", 8482), "the link is down")
        second.switch(up=True)
        until(lambda: reaches(first, "10.1.0.1", 8482), "the link is up again")


def test_hosts_do_not_reach_this_machine(attach: Attach) -> None:
    with socket.create_server(("127.0.0.1", 0)) as here:
        assert not reaches(attach("10.1.0.0"), *here.getsockname())


def test_what_a_host_seeks_elsewhere_is_seen_by_address_or_by_name(attach: Attach) -> None:
    host = attach("10.1.0.0")
    assert host.host.do(sought) == set()
    assert not reaches(host, "203.0.113.7", 443)
    assert host.host.do(sought) == {"203.0.113.7"}


def test_what_ip_refuses_is_said(attach: Attach) -> None:
    with pytest.raises(NetworkError, match=r"^ip address add 10\.1\./8 dev eth0: Error: "):
        attach("10.1.0.0").host.ip("address", "add", "10.1./8", "dev", "eth0")
