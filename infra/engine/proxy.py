"""No proxy between the engine and the processes it starts: they talk gRPC to each other on loopback addresses.

gRPC in C, which the program and our provider have, asks a lower-case https_proxy or grpc_proxy for 127.0.0.1 as well
unless a lower-case no_proxy says otherwise; what Go and Python's HTTP clients read is kept as it was. Standard library
only: it runs at every command.
"""

from __future__ import annotations

from collections.abc import Mapping

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_PROXIES = frozenset(("http_proxy", "https_proxy", "all_proxy", "grpc_proxy"))
_GRPC_ALONE = "no_grpc_proxy"  # where it is set, gRPC reads it instead of no_proxy


def without_proxy_on_loopback(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with loopback addresses added to NO_PROXY and no_proxy, where any proxy is set.

    Entries that the user has stay. Where only one of the two is set, the other gets its entries too.
    """
    if not any(name.lower() in _PROXIES and value for name, value in environment.items()):
        return dict(environment)
    upper, lower = environment.get("NO_PROXY"), environment.get("no_proxy")
    result = {
        **environment,
        "NO_PROXY": _with_loopback(upper or lower or ""),
        "no_proxy": _with_loopback(lower or upper or ""),
    }
    if environment.get(_GRPC_ALONE):
        result[_GRPC_ALONE] = _with_loopback(environment[_GRPC_ALONE])
    return result


def _with_loopback(entries: str) -> str:
    own = [entry.strip() for entry in entries.split(",") if entry.strip()]
    return ",".join([*own, *(host for host in LOOPBACK if host not in own)])
