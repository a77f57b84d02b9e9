"""What the wait for hosts believes: which bundle they run, which failure is an end, and who has said nothing."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.emulated import TPU
from infra.emulators.tpu_api import Cloud, GuestAttribute, Timings, TpuApi
from infra.providers.resource import ResourceError
from tests.unit.tpu_stack import Stack, wanted

TIMINGS = Timings(admit_s=1, select_s=1, provision_s=5, boot_s=None)
OLD, NEW = "a" * 16, "b" * 16


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TpuApi]:
    with TpuApi(Cloud(TIMINGS)) as api:
        monkeypatch.setenv(TPU, api.url)
        yield api


def stack_of(api: TpuApi, **changes: Any) -> Stack:
    script = {"startup-script": f"#!/bin/bash\nexport SLIPWAY_BUNDLE={NEW}\n"}
    stack = Stack(wanted(metadata=script, accelerator_type="v6e-16"), api.advance, hosts=4)
    return dataclasses.replace(stack, **changes)


def reports(api: TpuApi, worker: int, phase: str, bundle: str = NEW, **status: object) -> None:
    """A host of the only node says so."""
    (node,) = api.cloud.ledger.nodes
    said = {"bundle": bundle, "status": {"phase": phase, "reason": None} | status}
    api.cloud.levers.set_guest_attribute(node, worker, GuestAttribute("slipway", "status", json.dumps(said)))


def all_train(api: TpuApi, bundle: str = NEW) -> None:
    for worker in range(4):
        reports(api, worker, "training", bundle)


def meanwhile(stack: Stack, *acts: Callable[[], object]) -> None:
    """Each before one of the waits while the request has nodes."""
    left, inner = list(acts), stack.advance

    def advance(seconds: float) -> None:
        if stack.state and stack.lines and "ACTIVE" in stack.lines[-1] and left:
            left.pop(0)()
        inner(seconds)

    stack.advance = advance


def failed(start: float, code: int = 1) -> dict[str, Any]:
    return {"started": start, "updated": start, "exit_code": code, "reason": "no token"}


def refused(stack: Stack) -> str:
    with pytest.raises(ResourceError) as caught:
        stack.up()
    return str(caught.value)


def test_a_host_that_fails_once_and_starts_again_is_progress(api: TpuApi) -> None:
    stack = stack_of(api)
    meanwhile(
        stack,
        lambda: reports(api, 2, "failed", **failed(1.0)),
        lambda: None,
        lambda: reports(api, 2, "bootstrapping", started=2.0, updated=2.0),
        lambda: all_train(api),
    )
    stack.up()
    assert stack.lines.count("host 2 of q-s has failed, and starts again: no token") == 1
    assert stack.state["ready"]["outputs"]["ready"] == 4


def test_the_same_failure_at_three_starts_ends_the_wait(api: TpuApi) -> None:
    stack = stack_of(api)

    def fails_at(start: float) -> Callable[[], None]:
        return lambda: reports(api, 2, "failed", **failed(start))

    meanwhile(stack, fails_at(1.0), fails_at(1.0), fails_at(2.0), fails_at(3.0))
    said = "host 2 of q-s has failed 3 times: no token; it goes on trying. Mend it, then `pulumi up` waits on"
    assert refused(stack) == said
    all_train(api)
    stack.up()
    assert stack.state["ready"]["outputs"]["ready"] == 4


def test_bad_input_ends_the_wait_at_once(api: TpuApi) -> None:
    stack = stack_of(api)
    meanwhile(stack, lambda: reports(api, 2, "failed", **failed(1.0, code=2)))
    assert refused(stack) == "host 2 of q-s has failed: no token; mend it and run `pulumi up` again"


def test_hosts_that_run_another_bundle_are_not_ready_with_this_one_and_it_is_said(api: TpuApi) -> None:
    """As where the stack file was changed while they trained: changed metadata does not start them again."""
    stack = stack_of(api)
    meanwhile(stack, lambda: all_train(api, OLD))
    stack.up()
    outputs = stack.state["ready"]["outputs"]
    assert (outputs["ready"], outputs["behind"]) == (0, 4)
    assert "4 hosts run another bundle; they take this one at their next boot" in stack.lines
    assert "ready" not in stack.changes()


def test_who_has_said_nothing_is_named_when_the_time_is_over(api: TpuApi) -> None:
    stack = stack_of(api, wait_deadline_s=300)
    meanwhile(stack, lambda: [reports(api, worker, "training") for worker in (0, 2)])
    assert "after 5m (wait_deadline); no word of q-s (host 1, host 3); `pulumi up` goes on waiting" in refused(stack)


def test_of_a_slice_that_never_boots_all_hosts_are_missing(api: TpuApi) -> None:
    stack = stack_of(api, wait_deadline_s=300)
    assert "after 5m (wait_deadline); no word of q-s (all hosts); `pulumi up` goes on waiting" in refused(stack)


def test_wait_that_is_set_later_waits(api: TpuApi) -> None:
    stack = stack_of(api, wait=False)
    stack.up()
    assert stack.state["ready"]["outputs"]["ready"] == 0
    waits = dataclasses.replace(stack, wait=True, lines=[])
    meanwhile(waits, lambda: all_train(api))
    waits.up()
    assert waits.state["ready"]["outputs"]["ready"] == 4
