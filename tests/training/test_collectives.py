"""Bytes that a compiled program sends, from texts as the TPU compiler writes them (shortened)."""

from __future__ import annotations

import pytest

from training.aot import needed_and_available
from training.collectives import Collective, collectives

ONE_SLICE = [0] * 8
MIB = 2**20


def program(*entry: str, more: str = "") -> str:
    return f"HloModule jit_step, is_scheduled=true\n\n{more}\nENTRY %main (p: f32[]) -> f32[] {{\n" + "\n".join(
        f"  {line}" for line in (*entry, "}")
    )


def found(text: str, mesh: dict[str, int] | None = None, slices: list[int] | None = None) -> list[Collective]:
    return collectives(text, mesh or {"data": 2, "fsdp": 4}, slices or ONE_SLICE)


LISTED = "replica_groups={{0,1,2,3},{4,5,6,7}}"
GATHER = "= bf16[4,1024,128]{2,1,0:T(8,128)(2,1)} all-gather(%copy.1), channel_id=1"


@pytest.mark.parametrize(
    ("groups", "axis", "members"),
    [
        (LISTED, "fsdp", 4),
        ("replica_groups=[2,4]<=[8]", "fsdp", 4),
        ("replica_groups=[4,2]<=[2,4]T(1,0)", "data", 2),
        ("replica_groups=[1,8]<=[8]", "data+fsdp", 8),
        ("replica_groups=mesh['axis_0'=2,'axis_1'=4] {'axis_1'}", "fsdp", 4),
        ("replica_groups=mesh['x'=8] {'x':(1)2}", "data", 2),
        ("replica_groups=mesh['x'=8] {'x':(2)4}", "fsdp", 4),
    ],
)
def test_groups_in_every_spelling_are_axes_of_the_mesh(groups: str, axis: str, members: int) -> None:
    (one,) = found(program(f"%all-gather.1 {GATHER}, {groups}, dimensions={{0}}"))
    assert (one.network, one.axis, one.operation) == ("ici", axis, "all-gather")
    assert one.size == MIB * (members - 1) / members


def test_what_each_kind_sends() -> None:
    sent = {
        one.operation: one.size
        for one in found(
            program(
                f"%all-reduce.1 = f32[1024,256]{{1,0}} all-reduce(%x), channel_id=2, {LISTED}, to_apply=%add",
                f"%reduce-scatter.1 = f32[256,256]{{1,0}} reduce-scatter(%x), channel_id=3, {LISTED}, to_apply=%add",
                f"%all-to-all.1 = f32[1024,256]{{1,0}} all-to-all(%x), channel_id=4, {LISTED}",
                "%collective-permute-start.1 = (f32[1024,256]{1,0}, f32[1024,256]{1,0}, u32[]{:S(2)}, u32[]{:S(2)}) "
                "collective-permute-start(%x), channel_id=5, source_target_pairs={{0,1},{1,2},{2,3},{3,0},{4,5}}",
            )
        )
    }
    assert sent == {
        "all-reduce": 2 * 0.75 * MIB,
        "reduce-scatter": 3 * MIB / 4,
        "all-to-all": 0.75 * MIB,
        "collective-permute": MIB,
    }


LOOP = """
%condition (s: (bf16[2], u32[])) -> pred[] {
  %constant.1 = u32[]{:T(128)} constant(16)
  %get-tuple-element.1 = u32[]{:T(128)} get-tuple-element(%s), index=1
  ROOT %compare.1 = pred[]{:T(512)} compare(%get-tuple-element.1, %constant.1), direction=LT
}

%body (s: (bf16[2], u32[])) -> (bf16[2], u32[]) {
  %constant.2 = u32[]{:T(128)} constant(STEP)
  %get-tuple-element.2 = u32[]{:T(128)} get-tuple-element(%s), index=1
  %add.1 = u32[]{:T(128)} add(%get-tuple-element.2, %constant.2)
  INSIDE
  ROOT %tuple.1 = (bf16[2]{0}, u32[]{:T(128)}) tuple(%get-tuple-element.1, %add.1), backend_config={}
}
"""
WHILE = "%while.1 = (bf16[2]{0}, u32[]{:T(128)}) while(%tuple.0), condition=%condition, body=%body"


@pytest.mark.parametrize(("step", "trips"), [(1, 16), (2, 8)])
def test_a_collective_in_a_loop_counts_as_often_as_the_loop_runs(step: int, trips: int) -> None:
    loop = LOOP.replace("STEP", str(step)).replace("INSIDE", f"%all-gather.1 {GATHER}, {LISTED}")
    (one,) = found(program(WHILE, more=loop))
    assert one.size == trips * 0.75 * MIB


def test_the_compilers_own_trip_count_wins() -> None:
    loop = LOOP.replace("STEP", "1").replace("INSIDE", f"%all-gather.1 {GATHER}, {LISTED}")
    said = WHILE + ', backend_config={"known_trip_count":{"n":"3"}}'
    (one,) = found(program(said, more=loop))
    assert one.size == 3 * 0.75 * MIB


def test_one_that_is_spread_over_fusions_counts_once() -> None:
    fusions = "".join(
        f"%{name} (p: bf16[2]) -> bf16[2] {{\n  %all-gather.{index} {GATHER}, {LISTED}\n}}\n\n"
        for index, name in enumerate(("fused_computation.1", "async_collective_fusion.2", "fused_computation.3"))
    )
    calls = [
        f"%fusion.{index} = bf16[2]{{0}} fusion(%p), kind=kCustom, calls=%{name}"
        for index, name in enumerate(("fused_computation.1", "async_collective_fusion.2", "fused_computation.3"))
    ]
    (one,) = found(program(*calls, more=fusions))
    assert one.size == 0.75 * MIB


def test_an_all_reduce_whose_own_part_is_taken_is_a_reduce_scatter() -> None:
    fusion = (
        "%all-reduce-scatter.7 (input: f32[1024,256]) -> f32[256,256] {\n"
        f"  %all-reduce.1 = f32[1024,256]{{1,0}} all-reduce(%input), channel_id=33, {LISTED}, to_apply=%add\n}}\n"
    )
    call = "%fusion.1 = f32[256,256]{1,0} fusion(%x), kind=kCustom, calls=%all-reduce-scatter.7"
    (one,) = found(program(call, more=fusion))
    assert (one.operation, one.size) == ("reduce-scatter", 0.75 * MIB)


def test_what_crosses_slices_is_a_send_to_the_host() -> None:
    text = program(
        "%send.34 = (f32[1024,256]{1,0}, u32[]{:S(2)}, token[]) send(%x, %after-all.34), channel_id=14, "
        'is_host_transfer=true, frontend_attributes={_xla_megascale_target="{1,2}x{0:3}",'
        '_xla_megascale_transfer_type="ALL_REDUCE"}'
    )
    (one,) = found(text, slices=[0, 0, 0, 0, 1, 1, 1, 1])
    assert one == Collective("dcn", "data", "all-reduce", MIB)


def test_what_nobody_calls_is_not_counted() -> None:
    assert (
        found(program("ROOT %add = f32[] add(%p, %p)", more=f"%left (p: f32[]) -> f32[] {{\n  %a {GATHER}\n}}\n")) == []
    )


@pytest.mark.parametrize(
    ("said", "gib"),
    [
        (
            "total memory required for HLO temporaries (15.92G) exceeds available HBM (15.75G). HLO module",
            (15.92, 15.75),
        ),
        ("Allocation (size=1) would exceed; Used 28.88G of 15.75G hbm. Exceeded by 13.13G.", (28.88, 15.75)),
        ("(512.0M) exceeds available HBM (31.24G)", (0.5, 31.24)),
    ],
)
def test_an_out_of_memory_error_in_numbers(said: str, gib: tuple[float, float]) -> None:
    numbers = needed_and_available(said)
    assert numbers and tuple(number / 2**30 for number in numbers) == gib


def test_other_errors_say_nothing_of_memory() -> None:
    assert needed_and_available("INVALID_ARGUMENT: Mosaic failed to compile TPU kernel") is None


# As XLA writes them for GPUs: what goes in and what comes out, each a tuple where several were made one.
JOINED = (
    "%all-gather-start.1 = ((bf16[64,128]{1,0}, bf16[32]{0}), (bf16[512,128]{1,0}, bf16[256]{0})) "
    "all-gather-start(%a, %b), channel_id=1, replica_groups=mesh['fsdp'=8] {'fsdp'}, dimensions={0}"
)
SCATTERED = (
    "%reduce-scatter-start.1 = ((f32[512,128]{1,0}), f32[64,128]{1,0}) reduce-scatter-start(%c), channel_id=2, "
    "replica_groups=mesh['fsdp'=8] {'fsdp'}, dimensions={0}, to_apply=%add"
)
REDUCED = (
    "%all-reduce-start.1 = ((f32[1024]{0}), f32[1024]{0}) all-reduce-start(%d), channel_id=3, "
    "replica_groups=[4,2]<=[2,4]T(1,0), to_apply=%add"
)


def test_gpus_of_one_host_send_over_nvlink_alone() -> None:
    sent = collectives(program(JOINED), {"fsdp": 8}, ONE_SLICE, [0] * 8)
    assert sent == [Collective("ici", "fsdp", "all-gather", 7 / 8 * (512 * 128 + 256) * 2)]


def test_what_leaves_a_host_of_gpus_is_divided_over_its_network_cards() -> None:
    """Two hosts of four: half of what is gathered or scattered is the other's, a quarter of it through each card."""
    sent = collectives(program(JOINED, SCATTERED), {"fsdp": 8}, ONE_SLICE, [0, 0, 0, 0, 1, 1, 1, 1])
    size = {(one.network, one.operation): one.size for one in sent}
    assert size == {
        ("ici", "all-gather"): 7 / 8 * (512 * 128 + 256) * 2,
        ("dcn", "all-gather"): (512 * 128 + 256) * 2 / 2 / 4,
        ("ici", "reduce-scatter"): 7 * 64 * 128 * 4,
        ("dcn", "reduce-scatter"): 512 * 128 * 4 / 2 / 4,
    }


def test_a_group_with_one_gpu_of_each_host_sends_nothing_over_nvlink() -> None:
    sent = collectives(program(REDUCED), {"data": 2, "fsdp": 4}, ONE_SLICE, [0, 0, 0, 0, 1, 1, 1, 1])
    assert sent == [Collective("dcn", "data", "all-reduce", 4096.0)]
