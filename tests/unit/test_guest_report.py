"""What a host in a VM says of itself, and what whoever waits makes of it."""

from __future__ import annotations

import json

import pytest

from infra.vm_hosts.guest_report import HostFailedError, Report, parse, ready_hosts


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
