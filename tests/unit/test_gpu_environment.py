"""What GPU hosts are told: the table against Google's own list and NCCL's lines, and what follows where they differ."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from infra.commands.env import variables as environment_of
from infra.host_software.wheels import known_flags
from infra.pods import gpu_networks
from infra.pods.gpu_networks import GpuNetwork
from infra.stack_file.settings import Settings, SettingsError, from_file, from_text, that_trains
from tests.unit.test_gke_tpu_settings import made as of_gke
from tests.unit.test_kubernetes_settings import SHIPPED, made
from training import gpu_hosts, nccl_log
from training.gpu_environment import NETWORKS, SETTINGS, TCPXO, Setting, Versions, flags, variables
from training.hosts import HostError, NotYetError

GOLDEN = Path(__file__).parents[1] / "golden" / "nccl"
# Not of Google's script, or otherwise: what the launch reads, what the script is told, and what the release's own list
# or the manifest beside it have besides.
OURS = {
    "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_LIB_DIR", "NCCL_NVLS_ENABLE", "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY",
    "XLA_PYTHON_CLIENT_MEM_FRACTION",
}  # fmt: skip


def by_name(rows: tuple[Setting, ...]) -> dict[str, str]:
    assert len({row.name for row in rows}) == len(rows), "no name has two values"
    return {row.name: row.value for row in rows}


def profile() -> dict[str, str]:
    """The variables that the plugin's own script sets, on a node whose cards are called eth0 to eth8."""
    text = (GOLDEN / "nccl-env-profile.txt").read_text()
    found = dict(re.findall(r"^export (\w+)=(.*)$", text, re.MULTILINE))
    words = {"NCCL_LIB_DIR": "/usr/local/nvidia/lib64", "host_nic": "eth0", "gpu_nics": "eth1,eth2,eth3,eth4,eth5,"}
    words["gpu_nics"] += "eth6,eth7,eth8"
    del found["LD_LIBRARY_PATH"]  # what the image has is added to it there
    values = {name: re.sub(r"\$\{(\w+)\}", lambda word: words[word[1]], value) for name, value in found.items()}
    return {name: value.strip('"') for name, value in values.items()}


def test_what_tcpxo_is_told_is_the_plugins_own_profile() -> None:
    google, ours = profile() | {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}, by_name(variables(TCPXO, "v1.0.15"))
    assert {name: value for name, value in ours.items() if name not in OURS} == {
        name: value for name, value in google.items() if name not in OURS
    }


def test_each_value_says_why_and_who_says_so() -> None:
    for row in SETTINGS:
        assert row.why and row.source, row.name
        assert row.is_flag or row.jaxlib == Versions(), f"{row.name} is no flag, and has no jaxlib"


def test_nccls_variables_are_nccls_own() -> None:
    """By the source of the NCCL that the plugin brings, and of one that is newer than the locked wheel's."""
    known = set((GOLDEN / "variables.txt").read_text().split())
    of_nccl = re.compile(r"NCCL_(?!FASTRAK|SHIMNET|LIB_DIR|TUNER_CONFIG|DYNAMIC)")
    asked = {row.name for row in SETTINGS if of_nccl.match(row.name)}
    assert asked <= known


@pytest.mark.parametrize(
    ("version", "within"),
    [("1.0.11", False), ("v1.0.12", True), ("1.0.13", True), ("1.0.14", False), ("2.0", False)],
)
def test_a_value_holds_from_one_version_to_another(version: str, within: bool) -> None:
    assert (version in Versions("1.0.12", "1.0.13")) is within
    assert ("NCCL_DYNAMIC_CHUNK_SIZE" in by_name(variables(TCPXO, version))) is within


def test_flags_between_hosts_are_for_hosts_with_a_network_and_for_a_jaxlib_that_has_them() -> None:
    everywhere = ["--xla_gpu_enable_latency_hiding_scheduler", "--xla_gpu_enable_triton_gemm"]
    assert [row.name for row in flags("", "0.12.0.1")] == everywhere
    assert len(flags(TCPXO, "0.12.0.1")) == 5
    assert flags(TCPXO, "0.4.30") == ()


# --- a wheelhouse ---


def wheel(path: Path, names: list[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        padding = b"x" * ((1 << 24) - 10)  # so that the first name lies across two parts
        archive.writestr("jaxlib/libjax_common.so", padding + b"".join(b"\0%s\0" % name.encode() for name in names))
    return path


def test_a_jaxlib_that_has_lost_a_flag_is_refused_when_its_wheelhouse_is_built(tmp_path: Path) -> None:
    names = [row.name.removeprefix("--") for row in flags(TCPXO, "0.13")]
    assert known_flags.problem(wheel(tmp_path / "whole.whl", names), "0.13") is None
    assert known_flags.problem(wheel(tmp_path / "lacks.whl", [*names[1:], f"{names[0]}_longer"]), "0.13") == (
        "lacks.whl does not know --xla_gpu_enable_latency_hiding_scheduler, with which every GPU host would abort at "
        "its start; end its versions in training/gpu_environment.py before 0.13"
    )


# --- the host ---

SAID = """
gpu-0:71:230 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>
[2026-11-26 12:00:00] gpu-0:71:230 [3] src/plugin/net.cc:349 (ncclNetInit) NCCL WARN NET/FasTrak: no rxdm
gpu-0:71:230 [0] NCCL INFO Using network {network}
"""


def logged(path: Path, network: str) -> list[str]:
    path.write_text(SAID.format(network=network))
    return nccl_log.NcclLog(path).lines()


def test_nccl_that_took_sockets_is_told_with_where_to_look(tmp_path: Path) -> None:
    log = tmp_path / "nccl.log"
    sentence = nccl_log.sockets_refused(logged(log, "Socket"), TCPXO, log)
    assert sentence and sentence.startswith(
        f"NCCL fell back to plain sockets between hosts ('Using network Socket' in {log})"
    )
    assert "look at the daemonset nccl-tcpxo-installer of kube-system on this node" in sentence
    other = nccl_log.sockets_refused(logged(log, "Socket"), "", log)
    assert other and "at NCCL's plugin for it" in other


@pytest.mark.parametrize("network", ["FasTrak", "AWS Libfabric", "IB"])
def test_sockets_by_which_hosts_only_meet_are_no_network(tmp_path: Path, network: str) -> None:
    """NCCL begins over sockets in any case, and says so in a line of its own."""
    lines = logged(tmp_path / "nccl.log", network)
    assert nccl_log.sockets_refused(lines, TCPXO, tmp_path) is None
    assert nccl_log.warnings(lines) == ["NET/FasTrak: no rxdm"]


def test_a_log_is_read_once_and_by_whole_lines(tmp_path: Path) -> None:
    log = nccl_log.NcclLog(tmp_path / "nccl.log")
    assert log.lines() == []
    (tmp_path / "nccl.log").write_text("one\ntw")
    assert log.lines() == ["one"]
    (tmp_path / "nccl.log").write_text("one\ntwo\n")
    assert (log.lines(), log.lines()) == (["two"], [])


OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (x)\nGCC version: 12.3.0\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {}  Tue Sep 23 10:11:16 UTC 2025\nGCC version: 12.3.0\n"


@pytest.mark.parametrize("said", [OPEN, CLOSED])
@pytest.mark.parametrize(("version", "old"), [("550.90.07", True), ("570.195.03", True), ("580.65.06", False)])
def test_a_driver_that_is_older_than_the_locked_cuda_is_refused(said: str, version: str, old: bool) -> None:
    problem = gpu_hosts.driver_problem(said.format(version), "13")
    assert bool(problem) is old
    if problem:
        assert f"driver of this host is {version}, and CUDA 13, which the locked JAX is built for, needs 580" in problem


def test_the_locked_jax_is_of_a_cuda_whose_driver_is_known() -> None:
    lock = (Path(__file__).parents[2] / "training" / "locks" / "pylock.gpu-stable.toml").read_text()
    (cuda,) = set(re.findall(r'^name = "jax-cuda(\d+)-plugin"$', lock, re.MULTILINE))
    assert cuda in gpu_hosts.OLDEST_DRIVER


def test_a_host_without_nccls_plugin_waits_and_then_says_which_file(tmp_path: Path) -> None:
    driver, shown = tmp_path / "version", list[str]()
    asked = {"SLIPWAY_NETWORK": TCPXO}
    with pytest.raises(NotYetError, match=r"no /usr/local/nvidia/lib64/libnccl-net\.so, of.*the image lacks it"):
        gpu_hosts.check(asked, 2, "13", shown.append, patience_s=0, driver=driver)
    assert shown == ["waits for /usr/local/nvidia/lib64/libnccl-net.so, of NCCL's plugin for tcpxo"]
    gpu_hosts.check(asked, 1, "13", shown.append, patience_s=0, driver=driver)
    gpu_hosts.check({}, 2, "13", shown.append, patience_s=0, driver=driver)
    assert len(shown) == 1


def test_every_file_that_nccl_is_told_of_is_waited_for() -> None:
    told = {row.value for row in variables(TCPXO, "v1.0.15") if row.value.startswith("/") and "." in row.value}
    assert len(told) == 2 and told <= set(NETWORKS[TCPXO].files)


def test_an_old_driver_is_no_matter_of_waiting(tmp_path: Path) -> None:
    driver = tmp_path / "version"
    driver.write_text(CLOSED.format("535.1.2"))
    with pytest.raises(HostError, match="is 535") as refused:
        gpu_hosts.check({}, 2, "13", print, patience_s=0, driver=driver)
    assert not isinstance(refused.value, NotYetError)


# --- stacks ---


def that(stack: str, text: str) -> Settings:
    return that_trains(from_text(stack, text))


def test_sockets_are_refused_unless_the_stack_allows_them() -> None:
    assert made().group.environment["SLIPWAY_SOCKETS"] == "refused"
    assert "SLIPWAY_SOCKETS" not in made(allow_sockets=True).group.environment


@pytest.mark.parametrize(
    ("changes", "network"),
    [
        ({}, None),
        ({"gpu_network": "efa"}, "efa"),
        ({"accelerator": "a3-mega-2"}, "tcpxo"),
        ({"accelerator": "a3-mega-2", "gpu_network": "none"}, None),
    ],
)
def test_a_network_is_the_accelerators_or_what_the_stack_says(changes: dict[str, Any], network: str | None) -> None:
    environment = made("mega-2", **changes).group.environment
    assert environment.get("SLIPWAY_NETWORK") == network
    assert ("NCCL_FASTRAK_IFNAME" in environment) is (network == "tcpxo")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gpu_network": "tcpxo"}, "gpu_network is 'tcpxo' in stacks/Pulumi.mega-2.yaml, but a node of h100-2 has an"),
        (
            {"accelerator": "a3-high-2", "gpu_network": "tcpxo"},
            "of which this version knows nothing (a3-mega alone has it)",
        ),
        ({"accelerator": "a3-mega-2", "gpu_network": "efa"}, "but a3-megagpu-8g has tcpxo"),
        ({"accelerator": "a3-mega-2", "gpu_network": "roce"}, "gpu_network is 'roce'"),
    ],
)
def test_a_network_that_the_machine_does_not_have_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)):
        made("mega-2", **changes)


@pytest.mark.parametrize("changes", [{"gpu_network": "tcpxo"}, {"allow_sockets": True}])
def test_without_gpus_nothing_is_said_of_their_network(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="v6e-32 has no GPUs; leave it out"):
        of_gke("gke-v6e-32", **changes)


def test_env_prints_what_a_pods_training_finds_with_the_reason() -> None:
    settings = made("mega-2", accelerator="a3-mega-2")
    found = {each.name: each for each in environment_of(settings)}
    assert found["NCCL_FASTRAK_IFNAME"].value == "eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8"
    assert found["NCCL_FASTRAK_IFNAME"].why == "the network cards of the eight GPUs"
    assert (found["SLIPWAY_NETWORK"].value, found["JAX_PLATFORMS"].value) == ("tcpxo", "cuda,cpu")
    assert "jaxlib 0.11.2 to now; 0.12.0.1 is locked" in {each.holds for each in environment_of(settings)}
    container = {one.name for one in environment_of(that("eks-h100-2", SHIPPED))}
    assert {"NCCL_DEBUG", "JAX_PLATFORMS", "XLA_FLAGS"} <= container


@pytest.mark.parametrize("name", ["local", "v6e-32", "gke-v6e-32"])
def test_env_is_there_for_every_target(name: str) -> None:
    assert "JAX_PLATFORMS" in {each.name for each in environment_of(from_file(name))}


def test_a_network_that_nobody_describes_says_so() -> None:
    said = "\n".join(gpu_networks.notices(GpuNetwork.EFA, True))
    assert "a training over plain sockets ends" in said
    assert "not known of EFA of Amazon's nodes: how many EFA devices" in said
