"""Prepared text on its way to hosts of a cloud: pushed once, whole or not there, and said before a host starts."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.artifacts.push import Pushed
from infra.artifacts.store import NoBucketError, StoreError
from infra.commands.main import app
from infra.components.run_inputs import prepared_data_inputs
from infra.emulators.object_store import ObjectStore, StoreFaultKind
from infra.host_software.derive import compile_environment, host_software
from infra.host_software.wheels.mount_program import mount_program
from infra.preview import vocabulary
from infra.preview.stack_plan import decide
from infra.providers import made_at
from infra.providers.inputs import PreparedDataInputs
from infra.providers.prepared_data_resource import PreparedDataResource
from infra.providers.resource import Context, Outputs, ResourceError
from infra.runs import run_data, run_plan
from infra.runs.stored_data import push_prepared, stored_manifest
from infra.stack_file.settings import SettingsError
from infra.targets.local.settings import LocalSettings
from infra.targets.tpu_vm.declare import slice_args
from infra.targets.tpu_vm.settings import TpuVmSettings
from tests.emulators.s3_server import S3Server
from tests.unit.test_prepared_data import RECORDS, TOKENS, prepared
from tests.unit.test_settings import check, values
from tests.unit.test_tpu_vm_settings import made
from training.data.demand import DataDemand, refusal
from training.data.identity import DataError, read_manifest
from training.run_spec import DataSpec

SHARD = "train-00000-of-00001.array_record"
PLACE = "gs://bucket/prepared"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("some text\n" * 30_000)
    return tmp_path / "corpus"


@pytest.fixture
def directory(tmp_path: Path, corpus: Path) -> Path:
    return prepared(tmp_path, corpus)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with ObjectStore(tmp_path / "buckets") as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


def call(say: Callable[[str], None] = lambda line: None) -> Context:
    return Context("", time.monotonic() + 900, Event(), lambda _: None, say)


def inputs(directory: Path, prepared_in: str = "", **changes: Any) -> PreparedDataInputs:
    url = f"{PLACE}/{directory.name}"
    return dataclasses.replace(
        PreparedDataInputs(url, 1000, 1, "keep", [], "", "", "", 9, 4096, 9, prepared_in), **changes
    )


def read(new: PreparedDataInputs) -> Outputs | None:
    return PreparedDataResource().read(call(), "", vars(new))


def pushed(directory: Path) -> tuple[str, Pushed]:
    return push_prepared(directory, PLACE, lambda key, done: None)


@pytest.mark.usefixtures("server")
def test_text_is_pushed_once_and_whole_before_its_manifest_is(directory: Path) -> None:
    order: list[str] = []
    url, first = push_prepared(directory, PLACE, lambda key, done: order.append(key))
    assert (url, first.uploaded, first.present) == (f"{PLACE}/{directory.name}", 4, 0)
    assert order[-1] == "manifest.json" and len(order) == 4
    assert stored_manifest(url) == read_manifest(directory)
    assert pushed(directory)[1] == Pushed(0, 0, 4, first.uploaded_bytes)


def test_text_that_an_up_finds_is_young_again(server: ObjectStore, directory: Path) -> None:
    """Else `slipway gc` could remove it between two looks of that `up`."""
    pushed(directory)
    manifest = server.root / "bucket" / "prepared" / directory.name / "manifest.json"
    os.utime(manifest, (1e9, 1e9))
    PreparedDataResource().create(call(), inputs(directory, str(directory)))
    assert manifest.stat().st_mtime > 1e9


def test_a_push_that_breaks_off_leaves_nothing_that_hosts_take_for_whole(server: ObjectStore, directory: Path) -> None:
    server.fail(StoreFaultKind.DENIED, method="POST", path="/upload/", skip=2, times=10**9)
    with pytest.raises(StoreError, match="permission denied"):
        pushed(directory)
    with pytest.raises(DataError, match=r"holds no prepared text \(no manifest.json\); push it with: slipway d"):
        stored_manifest(f"{PLACE}/{directory.name}")
    with server.lock:
        server.faults.clear()
    _, again = pushed(directory)
    assert again.present >= 1 and again.present + again.uploaded == 4


@pytest.mark.long
def test_text_is_pushed_to_s3_and_found_there(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with S3Server(tmp_path / "s3") as server:
        server.make_bucket("bucket")
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        done = CliRunner().invoke(app, ["data", "push", str(directory), "s3://bucket/prepared"])
        url = f"s3://bucket/prepared/{directory.name}"
        assert done.exit_code == 0 and f"a stack trains on it with `slipway:data: {url}`" in done.output
        assert f"AWS_ENDPOINT_URL_S3 is {server.url}: buckets of s3:// are that server's" in done.output
        new = dataclasses.replace(inputs(directory, str(directory)), directory=url)
        PreparedDataResource().create(call(), new)
        assert read(new) is not None
        (server.buckets / "bucket" / "prepared" / directory.name / SHARD).unlink()
        assert read(new) is None, "a shard that is lost is drift"
        service = PreparedDataResource().service(vars(new))
        assert service is not None and (service.name, service.real) == (server.url, "s3.amazonaws.com")


def test_a_damaged_shard_is_not_pushed(server: ObjectStore, directory: Path) -> None:
    content = (directory / SHARD).read_bytes()
    (directory / SHARD).write_bytes(content[:-1] + b"!")
    with pytest.raises(DataError, match=f"{SHARD} in {directory} is damaged: remove the directory, and prepare"):
        pushed(directory)
    assert server.calls == []


def test_the_command_says_what_a_stack_writes(server: ObjectStore, directory: Path) -> None:
    done = CliRunner().invoke(app, ["data", "push", str(directory), PLACE])
    assert done.exit_code == 0, done.output
    assert f"a stack trains on it with `slipway:data: {PLACE}/{directory.name}`" in done.output
    refused = CliRunner().invoke(app, ["data", "push", str(directory), "/a/directory"])
    assert (refused.exit_code, refused.output) == (
        2,
        "error: '/a/directory' is no place in a bucket; give gs://bucket/path or s3://bucket/path, without '/' at its "
        "end\n",
    )


def test_text_in_a_bucket_of_another_region_is_refused_before_it_is_prepared(
    server: ObjectStore, directory: Path, corpus: Path
) -> None:
    assert prepared_data_inputs_of(cloud(corpus)).region == "us-east5"
    server.objects.make_bucket("far", {"location": "EUROPE-WEST4"})
    far = dataclasses.replace(
        inputs(directory, str(directory)), directory=f"gs://far/{directory.name}", region="us-east5"
    )
    with pytest.raises(
        ResourceError, match=r"'far' lies in europe-west4, but the hosts are in us-east5: .* bills each"
    ):
        PreparedDataResource().create(call(), far)
    assert [(each.method, each.path) for each in server.calls] == [("GET", "/storage/v1/b/far")], "one call, no push"
    with pytest.raises(ResourceError, match="'far' lies in europe-west4"):
        PreparedDataResource().update(call(), "", {}, far)
    with pytest.raises(NoBucketError, match="cannot ask the location of gs://none: there is no bucket 'none'"):
        PreparedDataResource().create(call(), dataclasses.replace(far, directory=f"gs://none/{directory.name}"))
    server.objects.make_bucket(
        "near", {"location": "US", "customPlacementConfig": {"dataLocations": ["US-EAST5", "US-EAST1"]}}
    )
    near = dataclasses.replace(far, directory=f"gs://near/{directory.name}")
    assert PreparedDataResource().create(call(), near)[0] == directory.name
    said = list[str]()
    PreparedDataResource().create(call(said.append), dataclasses.replace(near, directory=f"{PLACE}/{directory.name}"))
    assert said[0].startswith("data: bucket 'bucket' lies in the multi-region us: Google bills what is read there")


def test_who_may_write_in_a_bucket_but_not_look_at_it_is_told_that_nobody_asked_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: Path
) -> None:
    server = ObjectStore(tmp_path / "buckets")
    server.fail(StoreFaultKind.DENIED, method="GET", path="/storage/v1/b/bucket?")
    with server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        said = list[str]()
        new = inputs(directory, str(directory), region="us-east5")
        assert PreparedDataResource().create(call(said.append), new)[0] == directory.name
    assert said[0].startswith(
        "data: whether gs://bucket is in us-east5, where the hosts are, cannot be told: cannot ask "
    )
    assert "have it granted (roles/storage.legacyBucketReader on the bucket)" in said[0]


@pytest.mark.usefixtures("server")
def test_up_pushes_what_is_prepared_here_and_finds_it_the_next_time(directory: Path) -> None:
    new, said = inputs(directory, str(directory)), list[str]()
    assert read(new) is None
    identifier, outputs = PreparedDataResource().create(call(said.append), new)
    assert (identifier, outputs) == (directory.name, {"train_tokens": TOKENS, "heldout_tokens": TOKENS})
    assert said[-1].startswith("data: 0.0 MB in 3 files; each of 9 hosts copies it from gs://bucket/pre")
    assert read(new) == outputs
    assert PreparedDataResource().create(call(), inputs(directory))[1] == outputs, "a colleague prepares nothing"
    PreparedDataResource().delete(call(), identifier, vars(new) | {"on_destroy": "delete"})
    assert read(new) == outputs, "other stacks and runs may name it"
    service = PreparedDataResource().service(vars(new))
    assert service and service.real == "storage.googleapis.com"
    assert made_at.stamp(PreparedDataResource(), {"directory": str(directory)}) == {"state_version": made_at.VERSION}


@pytest.mark.usefixtures("server")
def test_a_shard_that_is_lost_in_the_bucket_is_drift_and_pushed_again(directory: Path, tmp_path: Path) -> None:
    new = inputs(directory, str(directory))
    PreparedDataResource().create(call(), new)
    (tmp_path / "buckets" / "bucket" / "prepared" / directory.name / SHARD).unlink()
    assert read(new) is None
    with pytest.raises(
        ResourceError, match=f"{SHARD} is lost, of which byte 0 to 50 are expected; delete gs://bucket/"
    ):
        PreparedDataResource().create(call(), inputs(directory))
    PreparedDataResource().create(call(), new)
    assert read(new)


def _no_manifest(stored: Path) -> None:
    (stored / "manifest.json").unlink()


def _cut_short(stored: Path) -> None:
    (stored / SHARD).write_text("cut")


def _other_text(stored: Path) -> None:
    manifest = stored / "manifest.json"
    manifest.write_text(manifest.read_text().replace(stored.name, "0" * 16))


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_no_manifest, "holds no prepared text (no manifest.json); push it with: slipway data push DIRECTORY gs://"),
        (_cut_short, f"{SHARD} has 3 bytes, its manifest says 50; delete gs://bucket/prepared/"),
        (_other_text, "holds other data (its manifest says 0000000000000000, expected is "),
    ],
)
def test_what_a_bucket_has_from_elsewhere_is_looked_at_before_hosts_are_asked_for(
    change: Callable[[Path], None], said: str, directory: Path, tmp_path: Path
) -> None:
    pushed(directory)
    change(tmp_path / "buckets" / "bucket" / "prepared" / directory.name)
    with pytest.raises(ResourceError) as refused:
        PreparedDataResource().create(call(), inputs(directory))
    assert said in str(refused.value)


CANNOT: list[tuple[dict[str, Any], str]] = [
    ({"hosts": 10}, "9 held-out records do not reach 10 hosts; raise data_options.heldout_fraction, lower "),
    ({"tokens": TOKENS + 1}, "1.00 epochs, and max_epochs is 1; raise data_options.max_epochs, lower steps or "),
    ({"vocab_size": 512}, "vocab_size is 512, but the tokenizer has 4096 pieces; set vocab_size to 4096"),
]


@pytest.mark.parametrize(("change", "said"), CANNOT)
def test_what_text_cannot_do_is_one_sentence(directory: Path, change: dict[str, Any], said: str) -> None:
    demand, manifest = DataDemand(TOKENS, 1, 9, 4096), read_manifest(directory)
    assert refusal(manifest, demand) is None
    assert said in str(refusal(manifest, dataclasses.replace(demand, **change)))
    without = dataclasses.replace(manifest, tokenizer=None)
    assert refusal(without, demand) == "the data was prepared without a tokenizer; training needs one"


def test_too_few_training_records_for_the_hosts_are_said_too(directory: Path) -> None:
    manifest = read_manifest(directory)
    few = dataclasses.replace(manifest, train=dataclasses.replace(manifest.train, records=1))
    assert "1 training records do not reach 2 hosts; lower data_options.heldout_fraction" in str(
        refusal(few, DataDemand(1, 1, 2, 0))
    )


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    ("change", "said"), [({"hosts": 10}, "9 held-out"), ({"vocab_size": 512}, "vocab_size is 512")]
)
def test_up_says_what_text_cannot_do_before_it_asks_for_hosts(
    directory: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ResourceError, match=said):
        PreparedDataResource().create(call(), inputs(directory, str(directory), **change))
    local = dataclasses.replace(inputs(directory, **change), directory=str(directory))
    with pytest.raises(ResourceError, match=said):
        PreparedDataResource().create(call(), local)


def test_a_state_of_before_has_not_changed_by_what_it_does_not_say(directory: Path) -> None:
    new = vars(inputs(directory))
    old = {key: value for key, value in new.items() if key not in ("hosts", "vocab_size", "prepared_in")}
    assert PreparedDataResource().changes(old, new) == {}
    assert PreparedDataResource().changes(new, new | {"hosts": 10}) == {"hosts": "update"}


# --- a preview ---

TINY: dict[str, Any] = {"base_emb_dim": 32, "per_device_batch_size": 1, "max_target_length": 64}


def cloud(corpus: object, **changes: Any) -> TpuVmSettings:
    return made(**{"data": str(corpus), "training": TINY, "data_options": {}} | changes)


def prepared_data_inputs_of(settings: TpuVmSettings) -> PreparedDataInputs:
    spec = run_plan.of_stack(settings)
    new = prepared_data_inputs(settings, spec, host_software(settings, spec), "keep")
    assert new
    return new


def notices(settings: TpuVmSettings, kept_here: Path) -> str:
    return "\n".join(run_data.notices(settings, run_plan.of_stack(settings), kept_here))


def test_a_preview_says_which_road_the_text_takes_and_how_much_it_is(tmp_path: Path, corpus: Path) -> None:
    settings = cloud(corpus)
    before = notices(settings, tmp_path / "data")
    assert before.startswith("data: 0.3 MB of text, not prepared here yet; `up` prepares it, counts its tokens and ")
    url = f"gs://slipway-data-us-east5-my-project/prepared/{prepared(tmp_path, corpus).name}"
    road = f"each of 8 hosts copies it from {url} to its disk, in about 1 s at an assumed 100 MB/s"
    assert before.endswith(road)
    after = notices(settings, tmp_path / "data")
    assert after.startswith("data: 0.0 MB in 3 files of content ")
    assert road in after and after.endswith("of 1,000,000,000 training tokens: 0.00 epochs")


def test_a_preview_says_what_prepared_text_cannot_do(tmp_path: Path, corpus: Path) -> None:
    prepared(tmp_path, corpus)
    with pytest.raises(SettingsError, match=f"{RECORDS['heldout']} held-out records do not reach 16 hosts"):
        notices(cloud(corpus, slices=2), tmp_path / "data")


def test_text_that_a_bucket_has_already_is_named_by_its_content(tmp_path: Path, corpus: Path) -> None:
    """The run is the same as that of whoever prepares the text, and no preview asks the bucket."""
    url = f"gs://bucket/corpora/{prepared(tmp_path, corpus).name}"
    here, there = cloud(corpus), cloud(url)
    specs = [run_plan.of_stack(settings) for settings in (here, there)]
    assert specs[0].run_name == specs[1].run_name
    assert specs[1].data and specs[1].data.directory == url
    assert notices(there, tmp_path / "nothing").startswith(f"data: {url}, of which `up` says how much it is")
    made_elsewhere = prepared_data_inputs(there, specs[1], host_software(there, specs[1]), "keep")
    assert made_elsewhere and (made_elsewhere.prepared_in, made_elsewhere.copied_by) == ("", 8)


def test_text_on_a_data_disk_is_prepared_and_checked_as_any_and_read_there(tmp_path: Path, corpus: Path) -> None:
    content = prepared(tmp_path, corpus).name
    settings = cloud(corpus, data_on_hosts="disk", data_disks=[{"source_disk": "corpora"}])
    spec, copied = run_plan.of_stack(settings), run_plan.of_stack(cloud(corpus))
    assert spec.data and spec.data.directory == f"/var/lib/slipway/data-disk/{content}"
    assert spec.run_name == copied.run_name, "another road is the same run"
    said = notices(settings, tmp_path / "data").splitlines()
    assert said[0].endswith(f"; hosts read it on their data disk, in {spec.data.directory}, where it has to be")
    assert said[1].endswith("epochs")
    new = prepared_data_inputs(settings, spec, host_software(settings, spec), "keep")
    assert new and (new.directory, new.copied_by) == (f"gs://slipway-data-us-east5-my-project/prepared/{content}", 0)
    assert (
        "\nexport SLIPWAY_DATA_DISK=slipway-data\n" in slice_args(decide(settings)).request.metadata["startup-script"]
    )


def test_text_that_hosts_mount_is_the_same_run_and_other_text_is_no_other_request(tmp_path: Path, corpus: Path) -> None:
    content = prepared(tmp_path, corpus).name
    settings = cloud(corpus, data_on_hosts="mount")
    spec, copied = run_plan.of_stack(settings), run_plan.of_stack(cloud(corpus))
    url = f"gs://slipway-data-us-east5-my-project/prepared/{content}"
    assert spec.data == DataSpec(f"/var/lib/slipway/data-mount/{content}", content, 1, url)
    assert spec.run_name == copied.run_name, "another road is the same run"
    said = notices(settings, tmp_path / "data").splitlines()
    assert said[0].startswith("data: 0.0 MB in 3 files of content ")
    assert said[0].endswith(f"; each of 8 hosts mounts {url}, read-only, and reads it as it trains; nothing is copied")
    new = prepared_data_inputs_of(settings)
    assert (new.directory, new.copied_by) == (url, 0)
    script = slice_args(decide(settings)).request.metadata["startup-script"]
    assert "\nexport SLIPWAY_DATA_MOUNT=gs://slipway-data-us-east5-my-project/prepared\n" in script
    elsewhere = slice_args(decide(cloud(f"gs://b/corpora/{content}", data_on_hosts="mount"))).request
    assert "\nexport SLIPWAY_DATA_MOUNT=gs://b/corpora\n" in elsewhere.metadata["startup-script"]
    assert content not in script + elsewhere.metadata["startup-script"]


def test_only_hosts_that_mount_install_what_mounts(corpus: Path) -> None:
    """By a hash that is known before it is built, and below which root of a host fetches it."""
    settings = cloud(corpus, data_on_hosts="mount")
    software = host_software(settings, run_plan.of_stack(settings))
    plain = host_software(cloud(corpus), run_plan.of_stack(cloud(corpus)))
    program = mount_program().sha256
    assert software.wheelhouse.id != plain.wheelhouse.id and "--mounts" not in plain.build_arguments
    assert software.build_arguments[-1] == "--mounts"
    assert f"mount: gcsfuse (sha256 {program[:12]})" in software.notices
    script = slice_args(decide(settings)).request.metadata["startup-script"]
    assert f"\nexport SLIPWAY_MOUNT_PROGRAM={program}\n" in script
    assert compile_environment(settings, "tpu") == compile_environment(cloud(corpus), "tpu")


def test_hosts_of_this_machine_read_no_bucket() -> None:
    with pytest.raises(SettingsError, match="hosts on this machine read text of this machine: name files, a directo"):
        check("local", values(data=f"gs://bucket/{16 * '0'}"))
    assert isinstance(check("local", values(data="stdlib")), LocalSettings)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "data_options.vocab_size is 4096, but llama2-7b has a vocabulary of 32000: give its tokenizer"),
        ({"data_options": {"vocab_size": 32000}}, ""),
        ({"data": "synthetic"}, ""),
        ({"training": {"model_name": "llama2-7b", "override_model_config": True}}, ""),
        ({"training": {"model_name": "gemma2-9b"}}, ""),
    ],
)
def test_a_named_model_of_another_vocabulary_than_its_text_is_refused(changes: dict[str, Any], said: str) -> None:
    named: dict[str, Any] = {"data": "stdlib", "training": {"model_name": "llama2-7b"}}
    settings = made(**named | changes)
    if not said:
        vocabulary.check(settings)
        return
    with pytest.raises(SettingsError, match=said):
        vocabulary.check(settings)
