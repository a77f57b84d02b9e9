"""Flag strings, and what the installed jaxlib says of them."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.cluster import plain_environment
from training import gpu_environment
from training.flag_check import check_flags
from training.xla_flags import DEFAULTS, XLA_FLAGS, Flag, FlagError, Flags, for_host, merge, parse

JAXLIB = importlib.metadata.version("jaxlib")


def user_flags(text: str) -> Flags:
    return merge(XLA_FLAGS, parse(text, XLA_FLAGS, "the user"))


def test_user_flag_wins_over_the_default_and_is_reported() -> None:
    xla, _ = for_host("gpu", 8, {XLA_FLAGS: "--xla_gpu_enable_latency_hiding_scheduler=false --xla_dump_to=/x"}, JAXLIB)
    assert xla.text.endswith("--xla_gpu_enable_latency_hiding_scheduler=false --xla_dump_to=/x")
    assert xla.text.count("latency_hiding_scheduler") == 1
    assert xla.overridden == (
        "XLA_FLAGS: --xla_gpu_enable_latency_hiding_scheduler=false (the host's XLA_FLAGS) replaces "
        "--xla_gpu_enable_latency_hiding_scheduler=true (Slipway's default)",
    )


def test_cpu_hosts_have_their_device_count_whatever_the_environment_says() -> None:
    xla, libtpu = for_host("cpu", 4, {XLA_FLAGS: "--xla_force_host_platform_device_count=99"}, JAXLIB)
    assert (xla.text, libtpu.text) == ("--xla_force_host_platform_device_count=4", "")


def test_tpu_default_is_in_place_before_the_tpu_is_up() -> None:
    _, libtpu = for_host("tpu", 4, {"LIBTPU_INIT_ARGS": "--xla_tpu_other=1"}, JAXLIB)
    assert libtpu.text == "--xla_tpu_spmd_rng_bit_generator_unsafe=true --xla_tpu_other=1"


def test_flag_given_twice_is_reported() -> None:
    flags = user_flags("--xla_a=1 --xla_a=1")
    assert (flags.text, flags.overridden) == ("--xla_a=1", ("XLA_FLAGS: --xla_a=1 is given twice (the user)",))


@pytest.mark.parametrize("text", ["/some/file", "xla_a=1", "--xla_a=1 true"])
def test_word_that_is_no_flag_is_refused(text: str) -> None:
    with pytest.raises(FlagError, match="which is no flag"):
        parse(text, XLA_FLAGS, "the user")


names = st.from_regex(r"--xla_[a-z_]{1,12}", fullmatch=True)
values = st.none() | st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=12)


@given(st.lists(st.tuples(names, values), unique_by=lambda pair: pair[0]))
def test_flags_survive_being_written_and_read(pairs: list[tuple[str, str | None]]) -> None:
    flags = tuple(Flag(name, value, "o") for name, value in pairs)
    assert parse(merge(XLA_FLAGS, flags).text, XLA_FLAGS, "o") == flags


def test_installed_jaxlib_names_every_unknown_flag(tmp_path: Path) -> None:
    text = "--xla_gpu_graph_level=0 --xla_cpu_enable_fast_math=false --xla_gpu_enable_triton_softmax_fusion=false"
    with pytest.raises(FlagError) as error:
        check_flags(user_flags(text), plain_environment(), tmp_path)
    assert "does not know --xla_gpu_graph_level=0 (from the user), " in str(error.value)
    assert "--xla_gpu_enable_triton_softmax_fusion=false (from the user); remove it" in str(error.value)
    assert "fast_math" not in str(error.value)


def test_installed_jaxlib_names_a_value_that_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(FlagError, match="cannot read --xla_cpu_enable_fast_math=banana"):
        check_flags(user_flags("--xla_cpu_enable_fast_math=banana"), plain_environment(), tmp_path)


def test_verdict_is_kept_and_a_bad_one_is_not(tmp_path: Path) -> None:
    good = user_flags("--xla_cpu_enable_fast_math=false")
    check_flags(good, plain_environment(), tmp_path)
    [verdict] = (tmp_path / "xla_flags").iterdir()
    assert verdict.read_text().endswith("accepts --xla_cpu_enable_fast_math=false\n")
    check_flags(good, {"PATH": ""}, tmp_path)
    with pytest.raises(FlagError):
        check_flags(user_flags("--xla_no_such=1"), plain_environment(), tmp_path)
    assert list((tmp_path / "xla_flags").iterdir()) == [verdict]


def test_our_defaults_are_known_to_the_installed_jaxlib(tmp_path: Path) -> None:
    """So a start without flags of the user's own needs no check."""
    flags = [str(Flag(name, value, "")) for row in DEFAULTS.values() for name, value in row.get(XLA_FLAGS, {}).items()]
    of_gpus = gpu_environment.flags(gpu_environment.TCPXO, JAXLIB)
    assert {each.name for each in of_gpus} == {each.name for each in gpu_environment.SETTINGS if each.is_flag}
    flags += [f"{each.name}={each.value}" for each in of_gpus]
    check_flags(
        user_flags(" ".join([*flags, "--xla_force_host_platform_device_count=2"])), plain_environment(), tmp_path
    )


def test_defaults_alone_are_not_checked(tmp_path: Path) -> None:
    for platform in DEFAULTS:
        for flags in for_host(platform, 2, {}, JAXLIB):
            check_flags(flags, {"PATH": ""}, tmp_path)
    assert list(tmp_path.iterdir()) == []
