"""Hosts that really boot, in `slipway emulate tpu --boot`: from an empty project to the end of a preempted run."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from infra.standins.gcp.store import STATE_VARIABLE
from tests.engine.booted_cloud import (
    FOUNDATION,
    MORE_STEPS,
    UNTIL_PREEMPTED,
    Slice,
    emulated,
    every_host_has_copied_its_text,
    finished,
    make_foundation,
    nothing_is_left,
    resumed_losses,
    there_is_no_foundation,
    undisturbed_losses,
    write_stack,
)
from tests.engine.clone import Clone, said
from tests.engine.project import until


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone.make(tmp_path / "clone")


def test_a_host_goes_on_after_a_preemption(clone: Clone, tmp_path: Path) -> None:
    """With what `slipway emulate tpu --boot` has of buckets and wheelhouses for stacks that it knows."""
    write_stack(clone, "vcpu-1", UNTIL_PREEMPTED)
    with emulated(clone, tmp_path) as emulator:
        vcpu = Slice(clone, emulator, "vcpu-1")
        saved = vcpu.train_until_preempted()
        vcpu.resume(saved + MORE_STEPS)
        every_host_has_copied_its_text(vcpu)
        assert emulator.sought_elsewhere() == set(), "nothing of bootstrap and training needs a way out"
        (resumed,) = resumed_losses(vcpu, saved)
        assert list(resumed) == list(range(saved, saved + MORE_STEPS))
        vcpu.pulumi("destroy")
        nothing_is_left(vcpu)


@pytest.mark.sample(0)  # minutes of a processor: four hosts install some 300 MB each
def test_a_slice_trains_in_an_empty_project_and_goes_on_after_a_preemption(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `slipway emulate tpu --boot` is for, with the buckets that a foundation has made."""
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "foundation"))
    with emulated(clone, tmp_path) as emulator:
        vcpu = Slice(clone, emulator, "vcpu-2")
        there_is_no_foundation(vcpu)
        make_foundation(clone)

        saved = vcpu.train_until_preempted()
        vcpu.resume(saved + MORE_STEPS, wait=True)
        (node,) = emulator.state()["nodes"]
        assert node["hosts"] == [True, True]
        hosts = until(lambda: finished(clone, vcpu.stack), "the hosts' word of it is read")
        assert [host["step"] for host in hosts] == [saved + MORE_STEPS] * 2
        logged = {disk.name for disk in emulator.disks()}
        until(lambda: emulator.hosts_that_logged("slipway: finished") >= logged, "their logs are in Cloud Logging")
        every_host_has_copied_its_text(vcpu)
        assert resumed_losses(vcpu, saved) == undisturbed_losses(vcpu.spec_here(), saved, tmp_path / "undisturbed")

        vcpu.pulumi("destroy")
        nothing_is_left(vcpu)
        gone = clone.pulumi("destroy", FOUNDATION, "--exclude-protected")
        assert "There are still" in said(gone)
        emulator.process.send_signal(signal.SIGINT)
        assert emulator.process.wait(timeout=900) == 0
