"""What `slipway gc` may delete, as decisions, and how names are read out of states and run records."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.artifacts import uses, wanted
from infra.artifacts.gc import Named, kept_wheelhouses, unreferenced
from infra.artifacts.layout import bundle_key, object_key, objects_of, sums_text, wheelhouse_key
from infra.artifacts.opening import open_store
from infra.artifacts.store import Entry, StoreError
from infra.providers.inputs import StoredBundleInputs
from infra.providers.stack_guard_resource import new_identity
from infra.providers.stored_bundle_resource import StoredBundleResource
from infra.runs import named_artifacts
from infra.runs.named_artifacts import by_deployment, by_record, by_records, by_stacks
from tests.unit.emulated_engine import EmulatedContext

NOW = datetime(2026, 1, 10, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(days=3), NOW - timedelta(hours=3)
DAY = timedelta(days=1)


def sha(number: int) -> str:
    return f"{number:064x}"


def identifier(number: int) -> str:
    return f"{number:016x}"


def wheel(number: int) -> str:
    return object_key(sha(number), f"wheel{number}.whl")


def wheelhouse(number: int, wheels: list[int]) -> dict[str, str]:
    """Its keys with their texts."""
    return {
        wheelhouse_key(identifier(number)): sums_text({f"wheel{each}.whl": sha(each) for each in wheels}),
        f"wheelhouses/{identifier(number)}/requirements.txt": "",
    }


def gone(texts: dict[str, str], named: Named, young: set[str] | None = None) -> list[str]:
    """What may go from a store with these objects."""
    entries = [Entry(key, 1, YOUNG if key in (young or set()) else OLD) for key in texts]
    kept = kept_wheelhouses(entries, named, NOW, DAY)
    sums = {each: texts[wheelhouse_key(each)] for each in kept}
    return [entry.key for entry in unreferenced(entries, named, sums, NOW, DAY)]


def test_what_a_kept_wheelhouse_lists_stays_and_the_rest_goes() -> None:
    texts = wheelhouse(1, [1, 2]) | wheelhouse(2, [2, 3]) | {wheel(each): "" for each in (1, 2, 3, 4)}
    assert gone(texts, Named(frozenset({identifier(1)}))) == [
        wheelhouse_key(identifier(2)),  # first, so that what is visible is whole
        wheel(3),
        wheel(4),
        f"wheelhouses/{identifier(2)}/requirements.txt",
    ]


def test_bundles_stay_by_name() -> None:
    texts = {f"bundles/{identifier(each)}/bundle.tar": "" for each in (1, 2)}
    assert gone(texts, Named(bundles=frozenset({identifier(1)}))) == [f"bundles/{identifier(2)}/bundle.tar"]


def test_young_objects_stay_and_a_young_wheelhouse_keeps_its_old_objects() -> None:
    texts = wheelhouse(1, [1]) | {wheel(1): "", wheel(2): "", wheel(3): ""}
    young = {wheelhouse_key(identifier(1)), wheel(2)}
    assert gone(texts, Named(), young) == [wheel(3)]


def test_an_object_under_another_name_is_not_the_object() -> None:
    texts = wheelhouse(1, [1]) | {wheel(1): "", f"objects/{sha(1)}/other.whl": ""}
    assert gone(texts, Named(frozenset({identifier(1)}))) == [f"objects/{sha(1)}/other.whl"]


@pytest.mark.parametrize(
    "key",
    [
        *("runs/a/record.json", "data/x", "objects/short/f", f"objects/{sha(1)}", f"objects/{sha(1)}/a/b"),
        *("wheelhouses/not-an-id/SHA256SUMS", "bundles/abc/bundle.tar", "README", "wanted/v6e-32/2bd806-1"),
    ],
)
def test_what_has_another_form_is_never_touched(key: str) -> None:
    assert gone({key: ""}, Named()) == []


def test_a_named_wheelhouse_without_its_index_stops() -> None:
    texts = wheelhouse(1, [1]) | {wheel(1): ""}
    del texts[wheelhouse_key(identifier(1))]
    with pytest.raises(StoreError, match="is in use but has no wheelhouses/0000000000000001/SHA256SUMS"):
        gone(texts, Named(frozenset({identifier(1)})))


def test_a_named_wheelhouse_of_another_store_is_no_matter() -> None:
    assert gone({wheel(1): ""}, Named(frozenset({identifier(9)}))) == [wheel(1)]


@pytest.mark.parametrize(
    "line", ["", "abc  f", f"{sha(1)} f", f"{sha(1)} *f", f"{sha(1)}  a/b", f"{sha(1).upper()[:-1]}X  f"]
)
def test_an_index_that_is_not_understood_stops(line: str) -> None:
    with pytest.raises(StoreError, match=r"line 2 of wheelhouses/0000000000000001/SHA256SUMS"):
        objects_of(identifier(1), f"{sha(7)}  wheel.whl\n{line}\n")


@given(
    houses=st.dictionaries(st.integers(0, 5), st.lists(st.integers(0, 9), max_size=5), max_size=5),
    named=st.sets(st.integers(0, 6)),
    young=st.sets(st.integers(0, 5)),
)
def test_no_kept_wheelhouse_loses_anything(houses: dict[int, list[int]], named: set[int], young: set[int]) -> None:
    texts: dict[str, str] = {wheel(each): "" for each in range(10)}
    for number, wheels in houses.items():
        texts |= wheelhouse(number, wheels)
    names = Named(frozenset(identifier(each) for each in named))
    away = set(gone(texts, names, {wheelhouse_key(identifier(each)) for each in young}))
    kept = {number for number in houses if number in named | young}
    needed = {wheel(each) for number in kept for each in houses[number]}
    assert not away & needed
    assert away >= {wheel(each) for each in range(10)} - needed
    assert {wheelhouse_key(identifier(each)) for each in houses if each not in kept} <= away


# --- names ---


def exported(*resources: dict[str, Any]) -> str:
    return json.dumps({"version": 3, "deployment": {"resources": list(resources)}})


def resource(kind: str, outputs: Any, **more: Any) -> dict[str, Any]:
    token = f"slipway:artifacts:{kind}"
    return {"urn": f"urn:pulumi:s::slipway::{token}::a", "type": token, "outputs": outputs} | more


def test_names_in_a_state() -> None:
    text = exported(
        resource("Wheelhouse", {"wheelhouse": "w1"}),
        resource("Wheelhouse", {"wheelhouse": "w2"}, delete=True),  # replaced, its hosts may still be there
        resource("Bundle", {"bundle": "b1"}),
        resource("Bundle", {"bundle": "b2"}, inputs={"bundle": "b3"}),  # an update that failed in the middle
        {"urn": "u", "type": "pulumi:pulumi:Stack"},
    )
    assert by_deployment("s", text) == Named(frozenset({"w1", "w2"}), frozenset({"b1", "b2", "b3"}))


def test_text_that_a_state_and_a_record_name() -> None:
    kind = {"urn": "u", "type": "slipway:data:PreparedData"}
    making = kind | {"outputs": {"directory": "gs://b/prepared/t1"}, "inputs": {"directory": "gs://b/prepared/t2"}}
    assert by_deployment("s", exported(making)) == Named(texts=frozenset({"t1", "t2"}))
    with pytest.raises(StoreError, match="does not say its directory"):
        by_deployment("s", exported(kind))
    assert by_record("r", json.dumps({"identity": {"data": "t1"}})) == Named(texts=frozenset({"t1"}))
    start = {"run_spec": "data:\n  content: t2\n", "wheelhouse": "w", "bundle": "b"}
    assert by_record("r", json.dumps(start)) == Named(frozenset({"w"}), frozenset({"b"}), frozenset({"t2"}))
    assert by_record("r", json.dumps(start | {"run_spec": "data: null\n"})).texts == frozenset()
    with pytest.raises(StoreError, match=r"the run record r is not readable \(ValueError\('a run spec is not YAML"):
        by_record("r", json.dumps({"run_spec": "{"}))


def test_what_an_engine_was_making_when_it_was_killed_is_in_use() -> None:
    making = {"resource": resource("Wheelhouse", None, inputs={"wheelhouse": "w"}), "type": "creating"}
    text = json.dumps({"deployment": {"pending_operations": [making]}})
    assert by_deployment("s", text) == Named(frozenset({"w"}))


@pytest.mark.parametrize(
    "text", [exported(), '{"version": 3, "deployment": {}}', '{"deployment": {"resources": null}}']
)
def test_a_stack_that_is_empty_names_nothing(text: str) -> None:
    assert by_deployment("s", text) == Named()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"deployment": null}', '{"deployment": {"resources": [1]}}', "null"])
def test_a_state_that_is_not_understood_stops(text: str) -> None:
    with pytest.raises(StoreError, match=r"the state of stack 's' is not readable .* nothing may be deleted"):
        by_deployment("s", text)


@pytest.mark.parametrize("outputs", [None, {}, {"wheelhouse": ""}, {"wheelhouse": {"ciphertext": "x"}}])
def test_a_resource_without_its_name_stops(outputs: Any) -> None:
    with pytest.raises(StoreError, match=r"does not say its wheelhouse, .* make up STACK=s"):
        by_deployment("s", exported(resource("Wheelhouse", outputs)))


def engine_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *commands: str) -> None:
    """A program in place of the engine, which says what it is told to."""
    program = tmp_path / "pulumi"
    program.write_text("\n".join(("#!/bin/sh", *commands)) + "\n")
    program.chmod(0o755)
    monkeypatch.setattr(named_artifacts, "PULUMI", program)


@pytest.mark.parametrize(
    ("commands", "said"),
    [
        (("echo no stacks",), r"the list of stacks is not readable \(JSONDecodeError"),
        (("echo '[{}]'",), r"the list of stacks is not readable \(KeyError\('name'\)\)"),
        (("echo 'error: no backend' >&2", "exit 255"), "cannot read the list of stacks: no backend"),
        (("exit 1",), "cannot read the list of stacks: it said nothing"),
        (
            ("[ $2 = ls ] && echo '[{\"name\": \"s\"}]' || { echo 'error: locked' >&2; exit 1; }",),
            "cannot read stack 's': locked",
        ),
    ],
)
def test_an_engine_that_does_not_tell_what_is_in_use_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: tuple[str, ...], said: str
) -> None:
    engine_that(tmp_path, monkeypatch, *commands)
    with pytest.raises(StoreError, match=f"{said}.*, so it is not known what is in use, and nothing may be deleted$"):
        by_stacks()


def test_a_clone_without_an_engine_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_artifacts, "PULUMI", tmp_path / "pulumi")
    with pytest.raises(
        StoreError, match=r"cannot read the list of stacks: no Pulumi engine \(No such file .*nothing may"
    ):
        by_stacks()


def test_names_of_every_stack_are_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = exported(resource("Bundle", {"bundle": "b"}))
    listed = '[{"name": "one"}, {"name": "two"}]'
    engine_that(tmp_path, monkeypatch, f"[ $2 = ls ] && echo '{listed}' || echo '{state}'")
    assert by_stacks() == (Named(bundles=frozenset({"b"})), ["one", "two"])


def test_names_in_records_of_the_store_and_of_local_stacks(tmp_path: Path) -> None:
    def record(*starts: dict[str, str | None]) -> str:
        return json.dumps({"identity": {"platform": "cpu"}, "starts": list(starts)})

    store = open_store(tmp_path / "store")
    texts = {
        "runs/a/record.json": record({"wheelhouse": "w1", "bundle": "b1"}, {"wheelhouse": "w2"}),
        "runs/some/where/record.json": record({"bundle": "b2"}, {}),
        "runs/new/record.json": json.dumps({"identity": {"platform": "cpu"}}),
        "runs/new/starts/1.json": json.dumps({"run_spec": "", "wheelhouse": "w4", "bundle": "b4"}),
        "runs/a/other.json": "not read",
        "data/record.json": "not read",
    }
    for key, text in texts.items():
        file = tmp_path / "file"
        file.write_text(text)
        store.put(key, file)
    local = tmp_path / "work" / "local" / "runs" / "r" / "record.json"
    local.parent.mkdir(parents=True)
    local.write_text(record({"wheelhouse": "w3", "bundle": None}))
    named, count = by_records([f"{store.uri}/runs", str(local.parent.parent), str(tmp_path / "nowhere")])
    assert (named, count) == (Named(frozenset({"w1", "w2", "w3", "w4"}), frozenset({"b1", "b2", "b4"})), 4)


@pytest.mark.parametrize("text", ["", "{}", '{"starts": []}', '{"identity": 1, "starts": ["x"]}', "[]", '"run_spec"'])
def test_a_record_that_is_not_understood_stops(text: str) -> None:
    with pytest.raises(StoreError, match=r"the run record place is not readable .* nothing may be deleted"):
        by_record("place", text)


def test_a_clone_takes_back_its_own_word_and_not_that_of_another(tmp_path: Path) -> None:
    """Whose stack file, owner and stack are the same: its `destroy` took back the use of what the other's hosts run."""
    store = open_store(tmp_path)
    mine, theirs = (
        uses.Use("bob", "v6e-32", identifier(1), identifier(2), state) for state in ("2bd806-1", "2bd806-2")
    )
    begun = uses.Use("bob", "v6e-32", identifier(1), identifier(3))
    for use in (mine, theirs, begun):
        uses.record(store, use)
    uses.forget(store, mine)
    assert set(uses.of_entries(store.entries())) == {theirs, begun}


def test_what_another_clone_has_begun_stays_when_this_one_has_another_bundle_or_none(tmp_path: Path) -> None:
    """Between its word and its bundle: `slipway gc` then offered the wheels that its hosts were about to install."""

    def using(number: int, state: str) -> StoredBundleInputs:
        bundle = identifier(number)
        open_store(tmp_path).put(bundle_key(bundle), Path(__file__))
        user = {"user": "bob/v6e-32", "state": state}
        return StoredBundleInputs(str(tmp_path), bundle, "", identifier(1), lock="", model_file="", **user)

    def left() -> set[tuple[str, str]]:
        return {(use.bundle, use.state) for use in uses.of_entries(open_store(tmp_path).entries())}

    context, resource = EmulatedContext(lambda _: None, [], 60), StoredBundleResource()
    for number in (2, 3, 9):  # of two clones, one of them of 0.1.0, and of a third that has just begun
        uses.record(open_store(tmp_path), uses.Use("bob", "v6e-32", identifier(1), identifier(number)))
    resource.create(context, using(3, "2bd806-1"))
    assert left() == {(identifier(2), ""), (identifier(9), ""), (identifier(3), "2bd806-1")}
    resource.update(context, "", vars(using(3, "2bd806-1")), using(4, "2bd806-1"))
    resource.update(context, "", vars(using(2, "")), using(5, ""))
    assert left() == {(identifier(5), ""), (identifier(9), ""), (identifier(4), "2bd806-1")}
    resource.delete(context, "", vars(using(5, "")))
    resource.delete(context, "", vars(using(4, "2bd806-1")))
    assert left() == {(identifier(9), "")}


def test_what_is_forgotten_is_of_that_stack_alone(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    mine, longer = (
        uses.Use("bob", stack, identifier(1), identifier(2), "2bd806-1") for stack in ("v6e-32", "v6e-32--mine")
    )
    for use in (mine, longer):
        uses.record(store, use)
        wanted.write(store, wanted.wanted_key(use.stack, use.state), use.bundle)
    assert uses.forget_user(store, mine.user) == 1
    assert list(store.keys(uses.PREFIX)) == [longer.key]
    assert wanted.of_entries(store.entries()) == {"wanted/v6e-32--mine/2bd806-1": "v6e-32--mine"}


def test_owners_of_one_label_are_not_forgotten_for_each_other(tmp_path: Path) -> None:
    """`--forget` took the word of whoever has the same label: next the wheels of a colleague's hosts were offered."""
    store = open_store(tmp_path)
    dot, dash = (
        uses.Use("a-b-x-com", "v6e-32", identifier(1), identifier(2), new_identity(owner))
        for owner in ("a.b@x.com", "a-b@x.com")
    )
    for use in (dot, dash):
        uses.record(store, use)
    with pytest.raises(StoreError, match="2 owners have the label 'a-b-x-com'; give the owner as the stack file"):
        uses.forget_user(store, dot.user)
    assert set(uses.of_entries(store.entries())) == {dot, dash}
    assert uses.forget_user(store, "a.b@x.com/v6e-32") == 1
    assert list(store.keys(uses.PREFIX)) == [dash.key]
