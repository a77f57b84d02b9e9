"""`slipway fit` and the fit in previews, with the real TPU compiler and small models."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from infra.host_software import wheelhouses
from infra.host_software.wheels.locks import STABLE
from tests.engine.clone import ROOT, TINY, Clone, said
from tests.engine.project import until

SMALL = TINY | {"head_dim": 128, "base_emb_dim": 128, "per_device_batch_size": 8}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """It has no verdicts yet, so what is compiled is compiled here, in an environment that is there."""
    wheelhouses.environment(wheelhouses.inputs_of("tpu", STABLE, None, None))
    return Clone.make(tmp_path_factory.mktemp("fit") / "clone")


def write(clone: Clone, stack: str, training: dict[str, Any], **settings: Any) -> None:
    document = yaml.safe_load((ROOT / "stacks" / "Pulumi.v6e-8.yaml").read_text())
    document["config"] |= {f"slipway:{key}": value for key, value in settings.items()}
    document["config"]["slipway:training"] = training
    (clone.directory / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))


def fits(clone: Clone, stack: str) -> subprocess.Popen[str]:
    command = clone.command("slipway", "fit", stack, "--json")
    return subprocess.Popen(
        command, cwd=clone.directory, env=clone.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_small_model_is_compiled_once_for_two_who_ask(clone: Clone) -> None:
    """Nothing of it is a stand-in: wheelhouse, environment, MaxText, libtpu. Then a preview has the answer."""
    write(clone, "v6e-8.small", SMALL)
    both = [fits(clone, "v6e-8.small") for _ in range(2)]
    answers = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    first, second = (json.loads(output[output.index("{\n") :]) for output, _ in answers)
    assert first == second, "the second took the first's answer"
    assert first["fits"] is True
    assert first["hbm_gib"] == pytest.approx(31.24, abs=0.02)
    assert 0 < first["argument_gib"] < first["peak_gib"] < 1
    assert first["tflops_per_device"] > 0 and first["estimate"]["step_s"] > 0
    assert {one["axis"] for one in first["traffic"] if one["network"] == "ici"} == {"fsdp"}

    shown = said(clone.pulumi("preview", "v6e-8.small", "--color", "never"))
    assert "  fit     0." in shown and " of 31.2" in shown and "; step at least " in shown


LARGE = SMALL | {"per_device_batch_size": 16384, "max_target_length": 2048}


def test_a_preview_compiles_what_is_not_known_and_stops_where_it_does_not_fit(clone: Clone) -> None:
    write(clone, "v6e-8.large", LARGE)
    stopped = clone.pulumi("preview", "v6e-8.large", "--color", "never")
    assert stopped.returncode != 0
    sentence = "does not fit v6e-8: out of memory: the train step wants "
    assert sentence in said(stopped), said(stopped)
    assert "`slipway fit v6e-8.large --levers` asks the compiler of each): per_device_batch_size: 8192 |" in said(
        stopped
    )
    assert "Traceback" not in said(stopped)
    shown = clone.run("slipway", "fit", "v6e-8.large")
    assert shown.returncode == 1
    assert "try: per_device_batch_size: 8192" in shown.stdout


@pytest.mark.sample(0)  # CUDA's compilers are 0.3 GB of wheels
def test_a_step_for_gpus_that_are_not_here_is_compiled_as_the_shipped_answer_says(clone: Clone) -> None:
    shipped = json.loads(clone.run("slipway", "fit", "eks-h100-2", "--json").stdout)
    answers = clone.directory / "infra" / "preview" / "fit" / "verdicts"
    (answers / f"{shipped['key']}.json").unlink()
    asked = json.loads((said_ := clone.run("slipway", "fit", "eks-h100-2", "--json").stdout)[said_.index("{\n") :])
    assert asked["compile_s"] != shipped["compile_s"], "it was asked anew"
    assert asked["peak_gib"] == pytest.approx(shipped["peak_gib"], rel=0.001)
    assert asked["traffic"] == shipped["traffic"]


@pytest.mark.sample(0)
def test_the_compiler_is_asked_of_each_lever(clone: Clone) -> None:
    write(clone, "v6e-8.large", LARGE)
    asked = json.loads(clone.run("slipway", "fit", "v6e-8.large", "--levers", "--json").stdout)
    assert {one["lever"]: one["fits"] for one in asked["levers"]} == {
        "per_device_batch_size: 8192": False,
        "accelerator: v6e-16": False,
    }
    assert min(one["peak_gib"] for one in asked["levers"]) < asked["peak_gib"]


def test_a_compile_ends_with_who_asked_also_if_that_was_killed(clone: Clone) -> None:
    write(clone, "v6e-8.left", SMALL | {"per_device_batch_size": 12})
    with fits(clone, "v6e-8.left") as asking:
        (compiler,) = until(lambda: compilers(asking.pid), "the compile runs")
        asking.kill()
    assert psutil.wait_procs([compiler], timeout=900)[1] == []


def compilers(pid: int) -> list[psutil.Process]:
    """Once they are Python: what ends them with their parent is in the program itself."""
    children = psutil.Process(pid).children(recursive=True)
    output = [Path(f"/proc/{child.pid}/fd/1").resolve() for child in children if "training.aot" in child.cmdline()]
    return children if any(path.is_file() and "importing" in path.read_text() for path in output) else []


def test_what_takes_too_long_is_unknown_and_refused_by_up(clone: Clone) -> None:
    write(clone, "v6e-8.hasty", SMALL | {"per_device_batch_size": 9}, project="real-project", fit_timeout_s=1)
    refused = clone.pulumi("up", "v6e-8.hasty", "--color", "never")
    assert refused.returncode != 0
    unknown = "unknown: the compile took longer than 1 s; raise fit_timeout_s"
    assert f"fits is {unknown}; run `slipway fit v6e-8.hasty`, or write `slipway:fit: unchecked`" in said(refused)


def test_where_libtpu_cannot_be_installed_the_command_says_so(clone: Clone, tmp_path: Path) -> None:
    """No wheelhouse, no environment, and a package index that answers nobody."""
    shared = {name: clone.directory / ".slipway" / name for name in ("artifacts", "installed")}
    there = {name: link.readlink() for name, link in shared.items()}
    try:
        for name, link in shared.items():
            (tmp_path / name).mkdir()
            link.unlink()
            link.symlink_to(tmp_path / name)
        write(clone, "v6e-8.cut", SMALL | {"per_device_batch_size": 11})
        nobody = dict.fromkeys(("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"), "http://127.0.0.1:9")
        done = subprocess.run(
            clone.command("slipway", "fit", "v6e-8.cut"),
            cwd=clone.directory,
            env=clone.environment | nobody | {"NO_PROXY": "", "no_proxy": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for name, link in shared.items():
            link.unlink()
            link.symlink_to(there[name])
    assert done.returncode == 2, said(done)
    assert "error: the compiler's environment cannot be made: " in done.stderr
    assert "cannot be fetched from" in done.stderr and "Traceback" not in done.stderr


def test_without_the_environment_a_preview_fetches_nothing(clone: Clone, tmp_path: Path) -> None:
    installed = clone.directory / ".slipway" / "installed"
    there = installed.readlink()
    installed.unlink()
    installed.symlink_to(tmp_path)
    try:
        write(clone, "v6e-8.bare", SMALL | {"per_device_batch_size": 10})
        done = clone.run("slipway", "preview", "v6e-8.bare")  # the engine's preview is in it
    finally:
        installed.unlink()
        installed.symlink_to(there)
    assert done.returncode == 0, said(done)
    assert "is not on this machine; run `slipway fit v6e-8.bare`" in said(done)
    assert list(tmp_path.iterdir()) == []
