"""The part of the suite that runs inside pytest, in both environments: results as data, random order, fair shares.

Standard library and pytest only; pytest-xdist is there in the operator's environment alone.
"""

from __future__ import annotations

import json
import os
import random
import signal
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest

from tests.suite.soak import SOAK
from tests.suite.times import UNKNOWN_S, measured


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("slipway")
    group.addoption("--results", help="file that gets one JSON object a test: name, outcome, seconds")
    group.addoption("--shuffle", type=int, help="seed of a random order: of the modules, and of the tests of each")
    group.addoption("--seed", type=int, default=1, help="which few")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes seconds, though it needs no engine; not in `make quick`")
    config.addinivalue_line("markers", "sample(few): of a test's cases a few run, chosen by --seed; in a soak all")
    # A background job of a shell starts with SIGINT ignored, and so would every command that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    file = config.getoption("--results")
    if file and not hasattr(config, "workerinput"):  # a worker of xdist reports to the process that writes
        config.pluginmanager.register(_Results(Path(file)), "slipway-results")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A sample of what is sampled, in an order that makes all workers end together, or in that of a seed."""
    if not SOAK:
        _keep_samples(config, items)
    _order(config, items)


def _keep_samples(config: pytest.Config, items: list[pytest.Item]) -> None:
    if any("::" in argument for argument in config.args):
        return  # asked for by name
    cases: dict[str, dict[str, int]] = {}  # of each test: names, and how many of them
    for item in items:
        if marker := item.get_closest_marker("sample"):
            cases.setdefault(item.nodeid.partition("[")[0], {})[item.nodeid] = marker.args[0]
    seed = int(config.getoption("--seed") or 0)
    kept = {name for test, few in cases.items() for name in sample(test, list(few), min(few.values()), seed)}
    left_out = [item for item in items if item.get_closest_marker("sample") and item.nodeid not in kept]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def sample(test: str, cases: Sequence[str], few: int, seed: int) -> set[str]:
    """A few of a test's cases, always the same for a seed."""
    return set(random.Random(f"{seed} {test}").sample(list(cases), min(few, len(cases))))


def _order(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Module by module, those that take longest first; or modules, and the tests of each, in random order."""
    modules: dict[str, list[pytest.Item]] = {}
    for item in items:
        modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
    seed = config.getoption("--shuffle")
    if seed is None:
        seconds = measured()
        order = sorted(modules, key=lambda module: -seconds.get(module, UNKNOWN_S))
    else:
        chance = random.Random(seed)
        order = chance.sample(list(modules), len(modules))
        for tests in modules.values():
            chance.shuffle(tests)
    items[:] = [item for module in order for item in modules[module]]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from tests.suite.schedule import ByModule  # the hosts' environment has no xdist

    config.option.loadscopereorder = False
    return ByModule(config, log)


_CPU_BEFORE, _CPU_S = pytest.StashKey[float](), "cpu_s"


def _cpu_s() -> float:
    """Seconds of a processor that this process has used, with all that it has started and that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    item.stash[_CPU_BEFORE] = _cpu_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.when == "teardown":
        item.user_properties.append((_CPU_S, round(_cpu_s() - item.stash[_CPU_BEFORE], 3)))
    return (yield)


class _Results:
    """Writes each test once it has ended: its worst outcome, and the seconds of its setup, call and teardown."""

    def __init__(self, file: Path) -> None:
        self._file: TextIO = file.open("w")
        self._outcome: dict[str, str] = {}
        self._seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self._seconds[name] = self._seconds.get(name, 0.0) + report.duration
        if report.outcome != "passed" or name not in self._outcome:
            self._outcome[name] = report.outcome
        if report.when == "teardown":
            cpu_s = float(str(dict(report.user_properties).get(_CPU_S, 0.0)))
            self._write(name, self._outcome.pop(name), self._seconds.pop(name), cpu_s)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid, "failed", 0.0)

    def pytest_sessionfinish(self) -> None:
        for name, outcome in self._outcome.items():  # its process died in the middle
            self._write(name, "failed" if outcome == "passed" else outcome, self._seconds[name])
        self._file.close()

    def _write(self, name: str, outcome: str, seconds: float, cpu_s: float = 0.0) -> None:
        line = {"name": name, "outcome": outcome, "seconds": round(seconds, 3), "cpu_s": cpu_s}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
