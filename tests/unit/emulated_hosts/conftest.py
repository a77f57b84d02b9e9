"""What this machine has not is no test here: network and mount namespaces, without which hosts share what it has
(docs/emulated-hosts.md), and systemd, which setup does not bring: it is a package of the system's own."""

from __future__ import annotations

import shutil

from infra.emulators.tpu_hosts import network, view

_WITHOUT = {
    "test_network.py": network.permitted(),
    "test_view.py": view.permitted(),
    "test_systemd_verify.py": shutil.which("systemd-analyze"),
}
collect_ignore = [module for module, there in _WITHOUT.items() if not there]
