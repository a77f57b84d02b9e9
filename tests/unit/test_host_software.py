"""What hosts install, as a preview knows it: hashes from sources, the overlay named, the user's own model."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from infra.components.stored_software import stored_software_args
from infra.host_software.bundle import collect
from infra.host_software.derive import compile_environment, host_software
from infra.host_software.wheels import pythons
from infra.paths import TRAINING as ROOT_TRAINING
from infra.runs import run_plan
from infra.stack_file import settings
from infra.stack_file.settings import Settings, SettingsError
from tests.python_archive import NAME, python_archive
from training.run_spec import RunSpec

VALUES = {"target": "local", "accelerator": "cpu-8", "steps": 10, "data": "synthetic"}
TRAINING = {"ici_fsdp_parallelism": 8}


def stack(training: dict[str, object] | None = None, **more: object) -> Settings:
    checked = settings.check("local", VALUES | {"training": TRAINING | (training or {})} | more)
    assert isinstance(checked, Settings)
    return checked


def planned(made: Settings, tmp_path: Path) -> RunSpec:
    return run_plan.run_spec(made, tmp_path, None)


def test_same_stack_has_the_same_bundle_and_another_model_another(tmp_path: Path) -> None:
    first, again, other = (stack(), stack(), stack({"base_emb_dim": 64}))
    hashes = [host_software(each, planned(each, tmp_path), tmp_path).bundle for each in (first, again, other)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_overlay_is_named_with_its_hash(tmp_path: Path) -> None:
    wheel = tmp_path / "overlay" / "maxtext-0.2.6.dev1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"a fork")
    made, plain = stack(overlay=str(wheel.parent)), stack()
    software = host_software(made, planned(made, tmp_path), tmp_path)
    digest = hashlib.sha256(b"a fork").hexdigest()[:12]
    assert software.notices[1] == f"overlay: maxtext 0.2.6.dev1 ({wheel.name}, sha256 {digest})"
    assert software.wheelhouse.id != host_software(plain, planned(plain, tmp_path), tmp_path).wheelhouse.id
    assert software.build_arguments[-2:] == ["--overlay", str(wheel.parent)]
    assert stored_software_args(software, "gs://b").wheelhouse.arguments == software.build_arguments


def test_an_archive_of_python_is_part_of_the_wheelhouse_and_of_its_build(tmp_path: Path) -> None:
    archive = python_archive(tmp_path)
    made, plain = stack(python_archive=str(archive)), stack()
    software = host_software(made, planned(made, tmp_path), tmp_path)
    assert software.build_arguments[-2:] == ["--python-archive", str(archive)]
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    locked = pythons.locked_python()
    assert software.notices[1] == f"python: {NAME} (sha256 {digest[:12]}), which is not the locked release ({locked})"
    sum_line = f"{digest}  {NAME}\n"
    assert collect(ROOT_TRAINING, software.contents).files["python.sha256"] == sum_line.encode()
    assert stored_software_args(software, "gs://b").bundle.python == sum_line
    assert software.wheelhouse.id != host_software(plain, planned(plain, tmp_path), tmp_path).wheelhouse.id
    assert (
        compile_environment(made, "cpu", tmp_path).id
        == host_software(plain, planned(plain, tmp_path), tmp_path).wheelhouse.id
    ), "no compile depends on it"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"overlay": "/nowhere"}, "overlay /nowhere holds no wheel"),
        (
            {"python_archive": "nowhere.tar.gz"},
            "python_archive is 'nowhere.tar.gz', which is no file; give one, or `locked`",
        ),
        (
            {"channel": "nightly"},
            "there is no training/locks/pylock.cpu-nightly.toml; make it with: make lock CHANNEL=ni",
        ),
    ],
)
def test_what_is_not_there_stops_the_preview(tmp_path: Path, more: dict[str, object], said: str) -> None:
    made = stack(None, **more)
    with pytest.raises(SettingsError, match=said.replace(".", r"\.").replace("*", r"\*")):
        host_software(made, planned(made, tmp_path), tmp_path)


def test_hosts_that_have_no_python_get_the_locked_release(tmp_path: Path) -> None:
    """TPU VMs, whatever their stack says; a compile on this machine does not depend on it."""
    made = settings.from_file("v6e-32")
    software = host_software(made, planned(made, tmp_path), tmp_path)
    python, locked = software.wheelhouse.python, pythons.locked_python()
    assert python and (python.name, python.sha256, python.path) == (locked.name, locked.sha256, None)
    assert software.notices[1] == f"python: {locked} (sha256 {locked.sha256[:12]})"
    assert software.build_arguments[-2:] == ["--python-archive", "locked"]
    assert compile_environment(made, "tpu", tmp_path).python is None
    assert host_software(stack(), planned(stack(), tmp_path), tmp_path).wheelhouse.python is None


class TestModelFile:
    @pytest.fixture
    def model(self, tmp_path: Path) -> Path:
        return tmp_path / "mine.yml"

    def test_its_fields_are_the_run_specs_and_the_stacks_own_win(self, tmp_path: Path, model: Path) -> None:
        model.write_text("base_emb_dim: 64\nbase_mlp_dim: 128\n")
        made = stack({"model_file": str(model), "base_mlp_dim": 256})
        spec = planned(made, tmp_path)
        assert (spec.maxtext["base_emb_dim"], spec.maxtext["base_mlp_dim"]) == (64, 256)
        assert "model_file" not in spec.maxtext
        software = host_software(made, spec, tmp_path)
        assert software.contents.model_file == model
        assert stored_software_args(software, "gs://b").bundle.model_file == str(model)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (None, "cannot be read: no such file or directory"),
            ("- a list\n", "is not a mapping of MaxText fields"),
            ("a: [\n", "is not YAML"),
            ("base_embb_dim: 64\n", r"base_embb_dim.* nearest: training\.base_emb_dim"),
        ],
    )
    def test_what_is_wrong_with_it_is_one_sentence(self, model: Path, text: str | None, said: str) -> None:
        if text is not None:
            model.write_text(text)
        with pytest.raises(SettingsError, match=said):
            stack({"model_file": str(model)})

    @pytest.mark.parametrize("name", [3, "", ["mine.yml"]])
    def test_what_names_no_file_is_said_as_it_is(self, name: object) -> None:
        with pytest.raises(SettingsError) as caught:
            stack({"model_file": name})
        assert str(caught.value).startswith(
            f"training.model_file is {name!r}; give the path of a YAML file of MaxText fields (stacks/Pulumi."
        )

    def test_it_is_not_a_key_of_the_stack(self) -> None:
        with pytest.raises(SettingsError, match="model_file belongs under `slipway:training:`"):
            stack(model_file="x.yml")
