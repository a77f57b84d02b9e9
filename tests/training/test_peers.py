"""Supervisors that hear each other: real processes and sockets of this machine."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.training.cluster import PATIENCE_S, ROOT, free_port, wait_until
from training.peers import port

# A host in a process of its own: it prints what it hears, and says what its standard input says.
HOST = """
import sys
from training.endings import Cause, Ending
from training.exit_codes import ExitCode
from training.peers import Peers, Word
index, count, coordinator = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
def heard(word):
    print(f"{word.host} {word.told().reason}", flush=True)
with Peers(index, count, coordinator, heard) as peers:
    for line in sys.stdin:
        cause, reason = line.strip().split(" ", 1)
        ending = Ending(ExitCode.FAILED, Cause(cause), reason)
        peers.say(Word(index, cause != "done", ending, step=3, at="a step"))
        if cause == "done":
            break
"""
ESTABLISHED = "01"
LOST = "host {0} was lost (its connection broke); see host {0} for why"


class Hosts:
    """Three processes of one run, by index."""

    def __init__(self) -> None:
        self.coordinator = f"127.0.0.1:{free_port()}"
        self.processes: dict[int, subprocess.Popen[str]] = {}
        for index in (2, 1, 0):  # host 0, which the others wait for, boots last
            self.processes[index] = self.start(index)
        wait_until("all connected", lambda: self._connected() == 3)

    def start(self, index: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOST, str(index), "3", self.coordinator]
        return subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(self, index: int, text: str) -> None:
        stdin = self.processes[index].stdin
        assert stdin
        stdin.write(f"{text}\n")
        stdin.flush()

    def heard(self, index: int) -> str:
        """The next line of a host; waits for it, and ends it where none comes."""
        stdout = self.processes[index].stdout
        assert stdout
        hung = threading.Timer(PATIENCE_S, self.processes[index].kill)
        hung.start()
        try:
            return stdout.readline().strip()
        finally:
            hung.cancel()

    def kill(self, index: int) -> None:
        self.processes[index].kill()

    def _connected(self) -> int:
        own = f":{port(self.coordinator):04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
        return sum(line[1].endswith(own) and line[3] == ESTABLISHED for line in lines)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    for process in made.processes.values():
        process.kill()
        process.communicate()


def test_one_hosts_word_is_heard_by_all_others_with_its_name(hosts: Hosts) -> None:
    hosts.say(2, "training the disk is full")
    assert [hosts.heard(index) for index in (0, 1)] == ["2 host 2: the disk is full"] * 2


def test_a_host_that_is_killed_is_gone_and_one_that_leaves_is_not(hosts: Hosts) -> None:
    hosts.say(1, "done all steps are done")
    hosts.processes[1].wait()
    hosts.kill(2)
    assert hosts.heard(0) == f"2 {LOST.format(2)}"


def test_where_host_0_is_killed_all_others_end(hosts: Hosts) -> None:
    hosts.kill(0)
    assert [hosts.heard(index) for index in (1, 2)] == [f"0 {LOST.format(0)}"] * 2


def test_a_host_that_begins_anew_while_the_others_go_on_was_lost(hosts: Hosts) -> None:
    """As one that was killed, and started again by systemd at once: what it had in memory is gone."""
    hosts.kill(1)
    anew = hosts.start(1)
    try:
        assert [hosts.heard(index) for index in (0, 2)] == [f"1 {LOST.format(1)}"] * 2
    finally:
        anew.kill()
        anew.communicate()


def test_host_0_leaves_when_all_others_have(hosts: Hosts) -> None:
    for index in (0, 1, 2):
        hosts.say(index, "done all steps are done")
    for index in (1, 2, 0):
        output, _ = hosts.processes[index].communicate()
        assert (hosts.processes[index].returncode, output) == (0, "")
