"""What systemd itself says of the units that hosts start, where this machine has systemd-analyze (Debian: systemd)."""

from __future__ import annotations

import subprocess
from http.server import ThreadingHTTPServer
from pathlib import Path

from infra.emulators.tpu_hosts.unit_file import parse
from infra.vm_hosts.startup_script import startup_script
from tests.unit.test_startup_script import BOOTSTRAP, HOST, BootedHost, Google


def verified(*units: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def test_systemd_finds_nothing_to_say_of_the_units_that_the_startup_script_writes(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Google) as nobody_asks:
        host = BootedHost(tmp_path, nobody_asks)
    host.boot(startup_script(HOST, BOOTSTRAP))
    units = list(host.units.glob("*.service"))
    assert {unit.stem for unit in units} == {"slipway", "slipway-logs", "slipway-report"}
    assert verified(*units) == (0, "")
    assert not any(parse(unit.read_text()).ignored for unit in units), "an emulated host honours every key of them"


def test_what_it_has_to_say_would_be_heard(tmp_path: Path) -> None:
    unit = tmp_path / "wrong.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nRestartPreventExitStatuses=2\n")
    assert "Unknown key 'RestartPreventExitStatuses' in section [Service]" in verified(unit)[1]
