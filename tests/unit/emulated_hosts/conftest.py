"""What this machine has not is no test here: network namespaces, without which hosts share this machine's
(docs/emulated-hosts.md), and systemd-analyze, which setup could not bring but as root."""

from __future__ import annotations

import shutil

from infra.emulators.tpu_hosts.network import permitted

_WITHOUT = {"test_network.py": permitted(), "test_systemd_verify.py": shutil.which("systemd-analyze")}
collect_ignore = [module for module, there in _WITHOUT.items() if not there]
