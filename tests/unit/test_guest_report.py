"""What a host in a VM says of itself, and what whoever waits makes of it."""

from __future__ import annotations

import json

import pytest

from infra.vm_hosts.guest_report import HostFailedError, Report, parse, ready_hosts
from training.host_status import HostStatus, Phase


def said(phase: str) -> str:
    return json.dumps({"bundle": "b", "status": {"phase": phase, "reason": "no luck"}})


def test_hosts_are_ready_once_they_have_left_bootstrap() -> None:
    assert ready_hosts([said("booting"), said("bootstrapping"), said("training"), said("finished")]) == 2
    with pytest.raises(HostFailedError, match="a host has failed: no luck; mend it and run"):
        ready_hosts([said("failed")])


@pytest.mark.parametrize("half", ["", "{", "[]", "1", '{"status": null}', '{"status": "training"}', '{"bundle": "b"}'])
def test_half_a_report_is_none(half: str) -> None:
    assert parse(half) is None
    assert ready_hosts([half, said("training")]) == 1


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
