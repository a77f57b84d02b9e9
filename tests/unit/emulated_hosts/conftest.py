"""Where network namespaces are not permitted hosts share this machine's (docs/emulated-hosts.md): none to test."""

from __future__ import annotations

from infra.emulators.tpu_hosts.network import permitted

collect_ignore = [] if permitted() else ["test_network.py"]
