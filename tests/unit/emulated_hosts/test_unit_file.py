"""Units of emulated hosts: what is honoured of a file, when a service starts again, and what systemd says of ours."""

from __future__ import annotations

import pytest

from infra.emulators.tpu_hosts.unit_file import Unit, UnitCommand, parse
from infra.emulators.tpu_hosts.unit_words import UnitError, expanded, words

TEXT = """
[Unit]
Description=one
StartLimitIntervalSec=0

[Service]
# a comment
ExecStart=/bin/bash "/a place/train.sh" \\
  --again
ExecStartPre=+/bin/bash devices.sh
ExecStartPre=-/bin/false
Environment="HOME=/a place" LANG=C
Restart=on-failure
RestartSec=1min 30s
RestartPreventExitStatus=2 3 SIGKILL
TimeoutStopSec=infinity
KillMode=mixed
LimitNOFILE=1024
LimitMEMLOCK=infinity
Nice=5
"""


def test_a_service_is_read_as_systemd_reads_it() -> None:
    unit = parse(TEXT)
    assert unit.main == UnitCommand(("/bin/bash", "/a place/train.sh", "--again"))
    assert unit.before == (
        UnitCommand(("/bin/bash", "devices.sh"), as_root=True),
        UnitCommand(("/bin/false",), may_fail=True),
    )
    assert dict(unit.environment) == {"HOME": "/a place", "LANG": "C"}
    assert (unit.restart, unit.restart_s, unit.kill_mode) == ("on-failure", 90.0, "mixed")
    assert unit.stop_timeout_s > 1e6
    assert dict(unit.limits) == {"RLIMIT_NOFILE": 1024, "RLIMIT_MEMLOCK": -1}
    assert unit.ignored == ("Nice",), "what is not honoured is said"


@pytest.mark.parametrize(
    ("restart", "again"),
    [
        ("no", []),
        ("always", [0, 1, -15, -11]),
        ("on-failure", [1, -11]),
        ("on-success", [0, -15]),
        ("on-abnormal", [-11]),
    ],
    ids=["no", "always", "on-failure", "on-success", "on-abnormal"],
)
def test_when_it_starts_again(restart: str, again: list[int]) -> None:
    unit = Unit(UnitCommand(("/bin/true",)), restart=restart, no_restart_after=frozenset({2}))
    assert [code for code in (0, 1, 2, -15, -11) if unit.starts_again(code)] == again


def test_too_many_starts_end_it_but_where_the_limit_is_off() -> None:
    ages_s = [0.1, 1.0, 2.0, 3.0, 9.0, 60.0]
    assert parse("[Service]\nExecStart=/bin/true").is_started_too_often(ages_s)
    assert not parse("[Service]\nExecStart=/bin/true").is_started_too_often(ages_s[1:])
    assert not parse(TEXT).is_started_too_often(ages_s)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[Service]\n", "has 0 ExecStart= settings"),
        ("[Service]\nExecStart=/bin/true\nRestart=sometimes", "sometimes is none of no, on-failure"),
        ("[Service]\nExecStart=/bin/true\nRestartSec=soon", "Failed to parse time span: soon"),
        ("[Service]\nExecStart /bin/true", "Missing '='"),
        ("ExecStart=/bin/true", "outside of a section"),
        ("[Service]\nExecStart=/bin/true 'a", "Unbalanced quoting"),
        ("[Service]\nExecStart=/bin/true \\q", "Invalid escape sequences"),
        ("[Service]\nExecStart=-", "Empty path in command line"),
        ("[Service]\nExecStart=/bin/true %Z", "specifier %Z is not honoured"),
    ],
)
def test_what_systemd_would_refuse_is_refused(text: str, why: str) -> None:
    with pytest.raises(UnitError, match=why):
        parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ExecStart=/bin/bash %h/train.sh", "specifier %h is not honoured by this emulated host; %% is a percent sign"),
        ("ExecStart=/bin/true\nEnvironment=HOME=%S/host", "specifier %S is not honoured"),
        ("ExecStart=/bin/true\nUser=%i", "specifier %i is not honoured"),
        ("ExecStart=@/bin/true false", "@ before a command is not honoured"),
        ("ExecStart=/bin/true ; /bin/false", "several commands in one setting are not honoured"),
    ],
)
def test_what_systemd_honours_and_a_host_does_not_is_refused_by_name(text: str, why: str) -> None:
    with pytest.raises(UnitError, match=why):
        parse(f"[Service]\n{text}")


def test_percent_and_dollar_signs_are_systemds() -> None:
    unit = parse(
        '[Service]\nExecStart=/opt/$x/run "100%% of $$HOME" $WORDS ${WORDS}/b a$b 5% $NONE [${NONE}]\n'
        'ExecStartPre=:/bin/echo $$HOME\nEnvironment="HOME=/a $b %%h"'
    )
    environment = {"WORDS": "one 'two three'", "HOME": "/home"}
    assert dict(unit.environment) == {"HOME": "/a $b %h"}, "no variable is looked up in a value"
    assert unit.main.words[0] == "/opt/$x/run", "nor in the path of a program"
    assert unit.main.arguments(environment) == [
        "100% of $HOME",
        "one",
        "two three",
        "one 'two three'/b",
        "a$b",
        "5%",
        "[]",
    ]
    assert unit.before[0].arguments(environment) == ["$$HOME"]
    assert expanded(["$ODD"], {"ODD": "it's odd"}) == ["it's", "odd"]


def test_words_are_quoted_and_escaped_as_in_c() -> None:
    assert words(r"""a"b c"d 'e "f" \\' "" x\x41\101\u0041\sy \; "\t\"" """) == [
        *("ab cd", 'e "f" \\', "", "xAAA y", ";", '\t"'),
    ]
