"""The whole road: two slices from an empty project to a run that loses one, and goes on with half of its hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.standins.gcp.store import STATE_VARIABLE
from tests.engine.booted_cloud import (
    MORE_STEPS,
    UNTIL_PREEMPTED,
    Slice,
    emulated,
    every_host_has_copied_its_text,
    make_foundation,
    nothing_is_left,
    resumed_losses,
    undisturbed_losses,
    write_stack,
)
from tests.engine.clone import Clone


@pytest.mark.sample(0)  # ten hosts install some 300 MB each
def test_end_to_end_a_slice_is_lost_and_the_run_goes_on_with_both_and_then_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "foundation"))
    clone = Clone.make(tmp_path / "clone")
    write_stack(clone, "vcpu-2x2", UNTIL_PREEMPTED)
    with emulated(clone, tmp_path) as emulator:
        make_foundation(clone)
        vcpu = Slice(clone, emulator, "vcpu-2x2")

        saved = vcpu.train_until_preempted()
        both = saved + MORE_STEPS
        vcpu.resume(both)
        every_host_has_copied_its_text(vcpu)
        assert [node["hosts"] for node in emulator.state()["nodes"]] == [[True, True]] * 2
        steps = both + MORE_STEPS
        local = vcpu.spec_here(steps)  # the same run on this machine, of as many hosts
        undisturbed = undisturbed_losses(local, saved, tmp_path / "undisturbed")
        assert resumed_losses(vcpu, saved) == [without(host, both) for host in undisturbed]

        write_stack(clone, vcpu.stack, steps, batch=2, slices=1, run_name=vcpu.run.name)
        vcpu.pulumi("up")
        vcpu.finish(steps)
        (node,) = emulator.state()["nodes"]
        assert node["hosts"] == [True, True]
        for host in resumed_losses(vcpu, both):
            assert sorted(host) == list(range(both, steps))
            for step, loss in host.items():
                assert loss == pytest.approx(undisturbed[0][step], abs=1e-3), f"step {step} is the first that differs"

        vcpu.pulumi("destroy")
        nothing_is_left(vcpu)


def without(losses: dict[int, float], after: int) -> dict[int, float]:
    """Those of steps before `after`."""
    return {step: loss for step, loss in losses.items() if step < after}
