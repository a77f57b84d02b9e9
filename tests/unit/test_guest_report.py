"""What a host in a VM says of itself, and what whoever waits makes of it."""

from __future__ import annotations

import json

import pytest

from infra.vm_hosts.guest_report import HostFailure, Readiness, Report, parse, readiness
from training.host_status import HostStatus, Phase


def said(phase: str, bundle: str = "b", **more: object) -> str:
    return json.dumps({"bundle": bundle, "status": {"phase": phase, "reason": "no luck"} | more})


def test_hosts_are_ready_once_they_compile_with_this_bundle() -> None:
    values = [said("booting"), "", said("bootstrapping"), said("starting"), said("compiling"), said("finished"), "{"]
    assert readiness([*values, said("training", "a")], "b") == Readiness((4, 5), (7,), (1, 6), ())
    assert readiness([said("training", "a")], "").ready == (0,), "no script of ours says which"


@pytest.mark.parametrize(
    ("code", "final"), [(1, False), (75, False), (2, True), (3, True), (None, True)], ids=lambda value: str(value)
)
def test_what_systemd_starts_again_is_no_end(code: int | None, final: bool) -> None:
    """RestartPreventExitStatus of startup.sh."""
    failed = said("failed", started=7.0, updated=8.0, exit_code=code)
    assert readiness([said("training"), failed], "b").failures == (HostFailure(1, "no luck", final, 7.0),)


def test_a_host_that_has_failed_with_the_bundle_before_says_so() -> None:
    """Nothing starts it again with this one."""
    failed = said("failed", "a", started=7.0, updated=8.0, exit_code=1)
    reason = "no luck (with bundle a; it takes b at its next boot)"
    assert readiness([failed], "b").failures == (HostFailure(0, reason, final=True),)


def test_a_host_that_could_not_learn_its_bundle_tries_again() -> None:
    failed = said("failed", "", started=7.0, updated=8.0, exit_code=1)
    assert readiness([failed], "b").failures == (HostFailure(0, "no luck", final=False, start=7.0),)


@pytest.mark.parametrize("half", ["", "{", "[]", "1", '{"status": null}', '{"status": "training"}', '{"bundle": "b"}'])
def test_half_a_report_is_none(half: str) -> None:
    assert parse(half) is None
    assert readiness([half, said("training")], "b").ready == (1,)


def test_a_report_is_read_whole() -> None:
    assert parse(said("training")) == Report("training", "no luck", "b")


def test_how_far_a_training_is_comes_with_the_report_of_a_host_that_trains() -> None:
    status = {"phase": "training", "started": 1.0, "updated": 2.0, "step": 3, "still_since": 1.5, "mood": "good"}
    report = parse(json.dumps({"bundle": "b", "status": status}))
    assert report == Report("training", "", "b", HostStatus(Phase.TRAINING, 1.0, 2.0, 3, still_since=1.5))


@pytest.mark.parametrize("phase", ["booting", "a phase of later"])
def test_a_phase_that_is_not_the_trainings_is_all_that_is_read(phase: str) -> None:
    report = parse(json.dumps({"bundle": "b", "status": {"phase": phase, "started": 1.0, "updated": 2.0}}))
    assert report == Report(phase, "", "b")
