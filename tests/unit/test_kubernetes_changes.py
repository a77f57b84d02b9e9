"""What a change of a manifest means to the stand-in for Pulumi's plugin of Kubernetes, and how refusals are read."""

from __future__ import annotations

from typing import Any

import pytest

from infra.providers.input_types import UNKNOWN
from infra.standins.field_changes import ChangeKind, FieldChange
from infra.standins.kubernetes import changes, manifests, refusals
from infra.standins.kubernetes.manifests import Sort
from infra.standins.kubernetes.objects import Planned

JOBSET = Sort("jobset.x-k8s.io", "v1alpha2", "JobSet")
CONFIG_MAP = Sort("", "v1", "ConfigMap")
JOB = Sort("batch", "v1", "Job")


def manifest(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "namespace": "n"}, **fields}


def changed(old: dict[str, Any], new: dict[str, Any], sort: Sort = JOBSET, live: dict[str, Any] | None = None) -> Any:
    """As (path, kind, replaces), of an object that is as the old inputs say where `live` says nothing else."""
    found = changes.changes(old, live or old, new, changes.replacing_fields(sort, new))
    return [(each.path, each.kind.value, each.replaces) for each in found]


# --- which fields have changed ---


def test_what_the_server_has_filled_in_is_no_change() -> None:
    inputs = manifest(spec={"jobs": [{"name": "slice"}]})
    live = manifest(spec={"jobs": [{"name": "slice", "replicas": 1}], "suspend": False}, status={"ready": 1})
    live["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    assert changed(inputs, inputs, live=live) == []


def test_what_somebody_else_has_changed_is_one() -> None:
    inputs = manifest(spec={"replicas": 2, "paused": True})
    live = manifest(spec={"replicas": 5})
    assert changed(inputs, inputs, live=live) == [("spec.paused", "ADD", False), ("spec.replicas", "UPDATE", False)]


def test_a_change_is_named_as_deep_as_it_is() -> None:
    def with_environment(*values: str) -> dict[str, Any]:
        return manifest(spec={"containers": [{"env": [{"name": "A", "value": value} for value in values]}]})

    path = "spec.containers[0].env"
    assert changed(with_environment("1", "2"), with_environment("1", "3")) == [(f"{path}[1].value", "UPDATE", False)]
    assert changed(with_environment("1"), with_environment("1", "2")) == [(f"{path}[1]", "ADD", False)]
    assert changed(with_environment("1", "2"), with_environment("1")) == [(f"{path}[1]", "DELETE", False)]


def test_a_key_with_dots_is_quoted_and_true_is_not_one() -> None:
    old, new = manifest(data={"a.sh": "1", "flag": 1}), manifest(data={"a.sh": "2", "flag": True})
    assert changed(old, new) == [('data["a.sh"]', "UPDATE", False), ("data.flag", "UPDATE", False)]


def test_what_is_not_known_yet_is_a_change() -> None:
    assert changed(manifest(data={"a": "1"}), manifest(data={"a": UNKNOWN})) == [("data.a", "UPDATE", False)]


# --- which replace ---


@pytest.mark.parametrize(
    ("sort", "old", "new", "replaces"),
    [
        (CONFIG_MAP, {"data": {"a.sh": "1"}}, {"data": {"a.sh": "2"}}, True),
        (JOBSET, {"data": {"a.sh": "1"}}, {"data": {"a.sh": "2"}}, False),
        (JOB, {"spec": {"template": {"spec": {"x": 1}}}}, {"spec": {"template": {"spec": {"x": 2}}}}, True),
        (JOB, {"spec": {"templates": 1}}, {"spec": {"templates": 2}}, False),
        (JOB, {"spec": {"suspend": True}}, {"spec": {"suspend": False}}, False),
        (JOBSET, {"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}, True),
        (JOBSET, {"metadata": {"name": "a", "labels": {"x": "1"}}}, {"metadata": {"name": "a", "labels": {}}}, False),
        (JOBSET, {"metadata": {"namespace": "a"}}, {"metadata": {"namespace": "b"}}, True),
    ],
)
def test_what_replaces_is_what_the_official_plugin_replaces(
    sort: Sort, old: dict[str, Any], new: dict[str, Any], replaces: bool
) -> None:
    assert [each[2] for each in changed(manifest(**old), manifest(**new), sort)] == [replaces]


def test_content_may_change_in_place_where_the_settings_say_so_and_the_object_does_not_forbid_it() -> None:
    assert "data" in changes.replacing_fields(CONFIG_MAP, {})
    assert "data" not in changes.replacing_fields(CONFIG_MAP, {}, ["ConfigMap"])
    assert "data" in changes.replacing_fields(CONFIG_MAP, {"immutable": True}, ["ConfigMap"])
    assert "data" in changes.replacing_fields(Sort("", "v1", "Secret"), {}, ["ConfigMap"])


@pytest.mark.parametrize(
    ("immutable", "replaced"),
    [
        ((), []),
        (("spec.replicatedJobs",), ["spec.replicatedJobs[0].template"]),
        (("spec.replicatedJobs[0].template.spec",), ["spec.replicatedJobs[0].template"]),
        (("spec.other",), ["spec.replicatedJobs[0].template", "spec.suspend"]),
    ],
    ids=["none", "above", "below", "not ours"],
)
def test_what_the_server_calls_immutable_replaces(immutable: tuple[str, ...], replaced: list[str]) -> None:
    found = [
        FieldChange("spec.replicatedJobs[0].template", ChangeKind.UPDATE),
        FieldChange("spec.suspend", ChangeKind.UPDATE),
    ]
    assert [each.path for each in changes.with_replaced(found, immutable) if each.replaces] == replaced


# --- refusals ---


def status(message: str, *causes: tuple[str, str], code: int = 422, **more: Any) -> refusals.ApiRefusal:
    details = {"causes": [{"field": field, "message": text, **more} for field, text in causes]}
    return refusals.parse(code, {"kind": "Status", "reason": "Invalid", "message": message, "details": details})


def test_a_refusal_is_said_cause_by_cause_with_its_field() -> None:
    refusal = status(
        'X "a" is invalid: [...]', ("spec.a", "Required value"), ("spec.b", 'Invalid value: "q": no'), code=422
    )
    assert refusal.sentence() == 'spec.a: Required value; spec.b: Invalid value: "q": no'


def test_printed_templates_are_cut() -> None:
    said = status(f"spec.a: Invalid value: {'x' * 500}: field is immutable").sentence()
    assert said == f"spec.a: Invalid value: {'x' * 80}...: field is immutable"


def test_immutable_fields_are_found_in_causes_and_in_the_text_of_a_webhook() -> None:
    assert status("", ("spec.network", "Value is immutable")).immutable_fields() == ("spec.network",)
    webhook = (
        'admission webhook "vjobset.kb.io" denied the request: [spec.replicatedJobs: Invalid value: [{"name":"a"}]: '
        "field is immutable, spec.managedBy: Invalid value: null: field is immutable]"
    )
    assert status(webhook, code=403).immutable_fields() == ("spec.replicatedJobs", "spec.managedBy")
    assert not status("no", ("spec.a", "Required value")).says_immutable()


def test_whose_a_field_is_is_said() -> None:
    refusal = status("", (".spec.replicas", 'conflict with "kubectl-edit"'), code=409, reason="FieldManagerConflict")
    assert refusal.is_conflict
    assert 'spec.replicas: conflict with "kubectl-edit"' in refusal.sentence()


def test_complaints_of_what_is_not_known_yet_are_told_from_others() -> None:
    missing = status("", ("spec.jobs[0].name", "Required value"))
    assert missing.is_due_to(["spec.jobs[0].name"])
    assert missing.is_due_to(["spec.jobs"])
    assert not missing.is_due_to(["spec.jobs[0].image"])
    assert not status("no such namespace").is_due_to(["spec.jobs"])


def test_an_answer_that_is_no_status_has_its_code() -> None:
    assert refusals.parse(502, None).sentence() == "HTTP 502"


# --- manifests ---


@pytest.mark.parametrize(
    ("token", "sort"),
    [
        ("kubernetes:core/v1:ConfigMap", CONFIG_MAP),
        ("kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", JOBSET),
        ("slipway:kubernetes:Run$kubernetes:batch/v1:Job", JOB),
        ("kubernetes:helm:Release", None),
    ],
)
def test_the_kind_is_in_the_type_token(token: str, sort: Sort | None) -> None:
    assert manifests.sort_of(f"urn:pulumi:t::p::{token}::a") == sort


def test_what_is_not_known_yet_is_left_out_and_named() -> None:
    given = {"metadata": {"labels": {"state": UNKNOWN, "a": "b"}}, "spec": {"args": ["x", UNKNOWN]}}
    assert manifests.known_part(given) == {"metadata": {"labels": {"a": "b"}}, "spec": {"args": ["x"]}}
    assert manifests.unknown_paths(given) == ["metadata.labels.state", "spec.args[1]"]


def test_a_state_gives_back_what_was_put_in() -> None:
    live, inputs = manifest(status={"ready": 1}), manifest()
    state = manifests.kept(inputs, live, "pulumi-kubernetes-1")
    assert manifests.live_of(state) == live
    assert (manifests.inputs_of(state), manifests.manager_of(state)) == (inputs, "pulumi-kubernetes-1")
    assert manifests.place_of(manifests.identifier(live)) == ("n", "a")


def test_an_imported_object_has_no_field_of_the_server_as_input() -> None:
    last = "kubectl.kubernetes.io/last-applied-configuration"
    live = manifest(status={}, data={"a": "b"})
    live["metadata"] |= {"uid": "u", "managedFields": [], "annotations": {last: "{}"}}
    assert manifests.imported(live) == manifest(data={"a": "b"})


def test_what_a_program_declares_the_server_need_not_have_yet() -> None:
    crd = {"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "x"}}
    crd |= {"spec": {"group": JOBSET.group, "names": {"kind": JOBSET.kind}}}
    namespace = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "train"}}
    planned = Planned().with_manifest(crd).with_manifest(namespace).with_manifest(manifest())
    assert planned.has_kind(JOBSET)
    assert not planned.has_kind(JOB)
    assert set(planned.namespaces) == {"train"}
