"""What systemd itself says of the units that hosts start, where this machine has it (Debian: systemd)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from infra.emulators.tpu_hosts.unit_file import parse
from infra.vm_hosts.startup_script import startup_script
from tests.unit.test_startup_script import BOOTSTRAP, HOST, STRANGE, BootedHost, Google

NOBODY = 65534  # systemd takes no unit apart for root
TARGETS = ("basic", "default", "rescue", "shutdown", "sysinit")
STRANGE_UNIT = r"""
[Service]
ExecStartPre=/bin/echo "" 'it is "so"' \; a"b c"d \x41\101\u0041\sy "\"%%h\"" 100% %- 5%%
ExecStart=/bin/bash "/a %%h \"q\" \\ ends" a\
  b $WORDS $$x ${Y}b a$b
Environment="HOME=/a %%h $x \"q\" \\\\" B=%% 'C=it has "quotes"'
"""


def verified(*units: Path) -> tuple[int, str]:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@dataclass(frozen=True)
class UnitAsRead:
    """Words of its commands, in the order in which they run, before variables are looked up."""

    commands: list[list[str]]
    environment: dict[str, str]


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """One that another account may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_systemd_reads(unit: Path, directory: Path) -> UnitAsRead:
    """By a manager that starts nothing and prints what it would start."""
    units, run = directory / "units", directory / "run"
    for folder in (units, run):
        folder.mkdir()
    for target in TARGETS:
        (units / f"{target}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    shutil.copy(unit, units / "asked.service")
    other = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"] if os.getuid() == 0 else []
    if other:
        os.chown(run, NOBODY, -1)
    manager = shutil.which("systemd", path="/usr/lib/systemd:/lib/systemd")
    assert manager
    environment = {"PATH": os.environ["PATH"], "HOME": str(run), "XDG_RUNTIME_DIR": str(run)}
    done = subprocess.run(
        [*other, manager, "--test", "--user", "--unit=asked.service"],
        env=environment | {"SYSTEMD_UNIT_PATH": str(units)},
        capture_output=True,
        text=True,
        check=False,
    )
    dumped = re.split(r"^\t-> Unit ", done.stdout, flags=re.MULTILINE)
    [asked] = [each for each in dumped if each.startswith("asked.service:")]
    lines = re.findall(r"^\t+Command Line: (.*)$", asked, re.MULTILINE)
    return UnitAsRead(
        [_words_of_shell(line) for line in lines],
        dict(each.split("=", 1) for each in re.findall(r"^\t+Environment: (.*)$", asked, re.MULTILINE)),
    )


def _words_of_shell(line: str) -> list[str]:
    """A command, which systemd prints as a shell would take it."""
    command = f"printf '%s\\0' {line}"
    done = subprocess.run(["bash", "-c", command], env={}, capture_output=True, text=True, check=True)
    return done.stdout.split("\0")[:-1]


def as_hosts_read(unit: Path) -> UnitAsRead:
    read = parse(unit.read_text())
    return UnitAsRead([list(each.words) for each in (*read.before, read.main)], dict(read.environment))


def test_systemd_finds_nothing_to_say_of_the_units_that_the_startup_script_writes(
    tmp_path: Path, open_directory: Path
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Google) as nobody_asks:
        host = BootedHost(tmp_path, nobody_asks)
    home = tmp_path / STRANGE
    host.environ["SLIPWAY_HOME"] = str(home)
    host.boot(startup_script(HOST, BOOTSTRAP))
    units = list(host.units.glob("*.service"))
    assert {unit.stem for unit in units} == {"slipway", "slipway-logs", "slipway-report"}
    assert verified(*units) == (0, "")
    assert not any(parse(unit.read_text()).ignored for unit in units), "an emulated host honours every key of them"
    read = as_systemd_reads(host.units / "slipway.service", open_directory)
    assert read == as_hosts_read(host.units / "slipway.service")
    assert read.environment == {"HOME": f"{home}/host"}
    [devices, train] = read.commands
    assert devices == ["/bin/bash", f"{home}/programs/devices.sh".replace("$", "$$")], "a `$$` is one when it runs"
    assert train == ["/bin/bash", f"{home}/programs/train.sh".replace("$", "$$")]


def test_hosts_read_quotes_escapes_and_percent_signs_as_systemd_does(tmp_path: Path, open_directory: Path) -> None:
    unit = tmp_path / "strange.service"
    unit.write_text(STRANGE_UNIT)
    read = as_systemd_reads(unit, open_directory)
    assert read == as_hosts_read(unit)
    assert read.commands[1] == ["/bin/bash", '/a %h "q" \\ ends', "a", "b", "$WORDS", "$$x", "${Y}b", "a$b"]


def test_what_it_has_to_say_would_be_heard(tmp_path: Path) -> None:
    unit = tmp_path / "wrong.service"
    unit.write_text("[Service]\nExecStart=/bin/true\nRestartPreventExitStatuses=2\n")
    assert "Unknown key 'RestartPreventExitStatuses' in section [Service]" in verified(unit)[1]
