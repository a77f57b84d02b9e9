"""`slipway status` of TPU hosts: what they have reported as guest attributes, asked of the emulated API."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.commands.main import app
from infra.emulated import TPU
from infra.emulators.tpu_api import Cloud, GuestAttribute, NodeState, Timings, TpuApi
from infra.operate.stack_status import line
from infra.stack_file.settings import any_from_file
from infra.targets.hosts import HostView
from infra.targets.phases import BOOTING, LOST
from infra.targets.tpu_vm.hosts import TpuVmHosts
from infra.targets.tpu_vm.plan import request_inputs
from infra.targets.tpu_vm.settings import TpuVmSettings
from infra.vm_hosts.guest_report import ATTRIBUTE
from tests.unit.tpu_stack import Stack
from training.host_status import HostStatus, Phase

STACK, HOSTS = "v6e-32", 8
STOOD = datetime(2026, 11, 25, 3, 4, 5).timestamp()


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TpuApi]:
    with TpuApi(Cloud(Timings(0, 0, 0, boot_s=None), now_s=time.time())) as api:
        monkeypatch.setenv(TPU, api.url)
        yield api


@pytest.fixture
def node(api: TpuApi) -> str:
    settings = any_from_file(STACK)
    assert isinstance(settings, TpuVmSettings)
    Stack(request_inputs(settings, "#!"), api.advance, hosts=HOSTS, wait=False).up()
    return next(iter(api.cloud.ledger.nodes))


def report(api: TpuApi, node: str, worker: int, **said: Any) -> None:
    now = time.time()
    status = HostStatus(Phase.TRAINING, started=now, updated=now, step=40, steps=1000, saved=25, eta_s=60.0)
    value = {"bundle": "b" * 16, "status": dataclasses.asdict(dataclasses.replace(status, **said))}
    namespace, key = ATTRIBUTE.split("/")
    api.cloud.levers.set_guest_attribute(node, worker, GuestAttribute(namespace, key, json.dumps(value)))


def hosts() -> list[HostView]:
    return list(TpuVmHosts(STACK).states())


def test_a_host_that_stands_still_says_since_when(api: TpuApi, node: str) -> None:
    report(api, node, 2, still_since=STOOD)
    report(api, node, 3)
    views = hosts()
    assert [view.index for view in views] == list(range(HOSTS))
    assert line(views[2]) == "host 2 · training · step 40/1000 · 15 steps unsaved · nothing has ended since 03:04:05"
    assert line(views[3]) == "host 3 · training · step 40/1000 · 15 steps unsaved · ETA 1m00s"
    assert (views[3].name, views[3].slice, views[3].bundle) == (f"slipway-{STACK} worker 3", 0, "b" * 16)
    assert {views[index].phase for index in (0, 1, 4, 5, 6, 7)} == {BOOTING}, "they have said nothing yet"


def test_the_command_shows_it(api: TpuApi, node: str) -> None:
    for worker in range(HOSTS):
        report(api, node, worker, still_since=STOOD if worker else None)
    done = CliRunner().invoke(app, ["status", STACK])
    assert f"{STACK}: training, step 40 of 1000\n" in done.output
    assert done.output.count("nothing has ended since 03:04:05") == HOSTS - 1
    assert list(api.cloud.ledger.nodes) == [node], "it only reads"


def test_a_host_whose_node_is_taken_is_lost_and_one_that_has_ended_is_not(api: TpuApi, node: str) -> None:
    report(api, node, 0, still_since=STOOD)
    report(api, node, 1, phase=Phase.FINISHED)
    api.cloud.levers.set_node_state(node, NodeState.PREEMPTED)
    views = hosts()
    assert (views[0].phase, views[0].reason, views[0].still_since) == (LOST, "its node is PREEMPTED", None)
    assert (views[1].phase, views[1].step) == (Phase.FINISHED, 40)


def test_a_host_that_reports_no_more_is_told_from_one_that_does(api: TpuApi, node: str) -> None:
    report(api, node, 0, updated=time.time() - 3700)
    report(api, node, 1)
    views = hosts()
    assert (views[0].reason, views[1].reason) == ("has not reported for 61m", "")


def test_nodes_of_another_stack_are_not_this_ones(api: TpuApi, node: str) -> None:
    assert [view.name for view in TpuVmHosts("v6e-8").states()] == []


@pytest.mark.parametrize("verb", ["stop", "start", "purge"])
def test_a_verb_that_is_not_offered_is_refused_before_google_is_asked(api: TpuApi, verb: str) -> None:
    """Who had no credentials was told of those, and not that there is no such verb."""
    done = CliRunner().invoke(app, [verb, STACK])
    assert done.output == f"error: the target of stack '{STACK}' does not offer `{verb}` (docs/runbook.md)\n"
    assert (done.exit_code, api.calls) == (2, [])


def test_a_watcher_asks_as_often_as_an_api_may_be_asked(api: TpuApi, node: str) -> None:
    now = 1000.0
    watched = TpuVmHosts(STACK, lambda: now)
    assert watched.states()[0].phase == BOOTING
    report(api, node, 0)
    now += 9.0
    assert watched.states()[0].phase == BOOTING
    now += 1.0
    assert watched.states()[0].phase == Phase.TRAINING
