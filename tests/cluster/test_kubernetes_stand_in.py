"""The stand-in for Pulumi's plugin of Kubernetes against the real API server: through the real engine, and at its gRPC.

What it decides without a server: tests/unit/test_kubernetes_changes.py and test_kubernetes_access.py.
"""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from kubernetes import client, config
from kubernetes.client import ApiException
from pulumi.runtime.proto import provider_pb2

from infra.engine import kubernetes_plugin
from infra.engine.plugin_places import Choice
from infra.paths import ROOT, TOOLS
from infra.providers.input_types import UNKNOWN
from infra.providers.server import to_struct, to_values
from tests.cluster.emulator import Emulator
from tests.cluster.jobsets import jobset
from tests.engine.project import ENGINE, until
from tests.engine.provider_client import provider

_NUMBERS = itertools.count()
_PROGRAM = """
import json, pathlib, pulumi
said = json.loads(pathlib.Path("said.json").read_text())
cluster = pulumi.ProviderResource("kubernetes", "cluster", said["provider"])
made = []
for name, (token, manifest) in said["manifests"].items():
    options = pulumi.ResourceOptions(provider=cluster, depends_on=list(made))
    made.append(pulumi.CustomResource(token, name, manifest, options))
"""


@pytest.fixture
def namespace(cluster: Emulator) -> str:
    """Of one test, with the account that pods need."""
    name = f"stand-in-{next(_NUMBERS)}"
    cluster.kubectl("create", "namespace", name)
    until(lambda: cluster.kubectl("get", "serviceaccounts", "-n", name, "-o", "name"), f"the account of {name}")
    return name


def manifests(namespace: str, bundle: str = "one") -> dict[str, tuple[str, dict[str, Any]]]:
    """What target `kubernetes` declares, in short: by resource, its token and its manifest."""
    pods = jobset("train", slices=1, hosts=2)
    pods["spec"]["suspend"] = True  # the nodes are for other tests
    container = pods["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "SLIPWAY_BUNDLE", "value": bundle}]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "train"}}
    script = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "train"},
        "data": {"bootstrap.sh": "true\n"},
    }
    pods["metadata"] |= {"namespace": namespace, "labels": {"slipway-stack": "t"}}
    return {
        "account": ("kubernetes:core/v1:ServiceAccount", account),
        "script": ("kubernetes:core/v1:ConfigMap", script),
        "pods": ("kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", pods),
    }


def uids(cluster: Emulator, namespace: str) -> dict[str, str]:
    """What of ours the API server has, by resource."""
    listed = json.loads(cluster.kubectl("get", "-n", namespace, "-o", "json", "serviceaccounts,configmaps,jobsets"))
    words = {"ServiceAccount": "account", "ConfigMap": "script", "JobSet": "pods"}
    return {
        words[each["kind"]]: each["metadata"]["uid"] for each in listed["items"] if each["metadata"]["name"] == "train"
    }


# --- through the engine ---


@dataclass(frozen=True)
class Project:
    """A project whose engine finds the stand-in as the wrapper lets it."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Project:
        (directory / "state").mkdir(parents=True)
        (directory / "Pulumi.yaml").write_text("name: sample\nruntime: python\n")
        (directory / "__main__.py").write_text(_PROGRAM)
        (directory / "pip.py").symlink_to(ROOT / "infra" / "pip.py")  # the engine's Python host asks it
        project = cls(directory)
        project.run("stack", "init")
        return project

    def declare(self, provider_settings: dict[str, str], declared: dict[str, tuple[str, dict[str, Any]]]) -> None:
        said = {"provider": provider_settings, "manifests": declared}
        (self.directory / "said.json").write_text(json.dumps(said))

    def run(self, *arguments: str, refused: bool = False) -> str:
        environment = os.environ | {
            "PATH": os.pathsep.join([str(TOOLS), str(ENGINE), os.environ["PATH"]]),
            "PULUMI_BACKEND_URL": f"file://{self.directory / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_HOME": str(self.directory / "home"),
        }
        ran = subprocess.run(
            [ENGINE / "pulumi", *arguments, "--stack", "t", "--non-interactive", "--color", "never"],
            cwd=self.directory,
            env=kubernetes_plugin.with_choice(environment, Choice(None)),
            capture_output=True,
            text=True,
        )
        assert (ran.returncode != 0) == refused, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr


def steps(output: str) -> dict[str, str]:
    """What is said of each resource in the end: its name and the word."""
    return dict(re.findall(r"^ +\S* +kubernetes:\S+ (\w+) (\w+)", output, re.MULTILINE))


@pytest.mark.sample(0)  # the life of target kubernetes goes through the same engine and stand-in
def test_life_of_a_run(cluster: Emulator, namespace: str, tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project")
    settings = {"kubeconfig": str(cluster.kubeconfig), "namespace": namespace}
    project.declare(settings | {"context": "elsewhere"}, manifests(namespace))
    refused = project.run("preview", refused=True)
    assert refused.partition("Diagnostics:")[2].count("context 'elsewhere' does not exist in ") == 1

    project.declare(settings, manifests(namespace))
    made = project.run("up", "--yes")  # with its preview
    assert steps(made.partition("Updating")[0]) == dict.fromkeys(("account", "script", "pods"), "create")
    first = uids(cluster, namespace)
    assert set(first) == {"account", "script", "pods"}
    project.run("preview", "--expect-no-changes")

    project.declare(settings, manifests(namespace, bundle="two"))
    changed = project.run("up", "--yes")
    assert "JobSet pods replace [diff: ~spec]" in changed
    second = uids(cluster, namespace)
    assert [each for each in first if first[each] != second[each]] == ["pods"]

    cluster.kubectl("delete", "jobset", "train", "-n", namespace)
    cluster.kubectl("patch", "configmap", "train", "-n", namespace, "-p", '{"data": {"bootstrap.sh": "false"}}')
    drifted = project.run("refresh", "--yes", "--skip-preview")
    assert "1 deleted" in drifted
    assert "ConfigMap script updated" in drifted

    project.run("destroy", "--yes", "--skip-preview")
    assert uids(cluster, namespace) == {}


# --- at its gRPC interface ---


@dataclass(frozen=True)
class Plugin:
    """The stand-in as an engine has configured it for one cluster and namespace."""

    stub: Any

    def urn(self, token: str) -> str:
        return f"urn:pulumi:t::sample::{token}::a"

    def checked(self, token: str, manifest: dict[str, Any]) -> Any:
        answer = self.stub.Check(provider_pb2.CheckRequest(urn=self.urn(token), news=to_struct(manifest)))
        assert not answer.failures, answer.failures
        return answer.inputs

    def create(self, token: str, manifest: dict[str, Any], preview: bool = False) -> Any:
        inputs = self.checked(token, manifest)
        return self.stub.Create(provider_pb2.CreateRequest(urn=self.urn(token), properties=inputs, preview=preview))

    def update(self, token: str, made: Any, manifest: dict[str, Any], preview: bool = False) -> Any:
        request = provider_pb2.UpdateRequest
        return self.stub.Update(
            request(
                id=made.id,
                urn=self.urn(token),
                olds=made.properties,
                news=self.checked(token, manifest),
                preview=preview,
            )
        )

    def diff(self, token: str, made: Any, manifest: dict[str, Any]) -> Any:
        news = self.checked(token, manifest)
        return self.stub.Diff(
            provider_pb2.DiffRequest(id=made.id, urn=self.urn(token), olds=made.properties, news=news)
        )

    def delete(self, token: str, made: Any, timeout: float = 60.0) -> Any:
        request = provider_pb2.DeleteRequest
        return self.stub.Delete.future(
            request(id=made.id, urn=self.urn(token), properties=made.properties, timeout=timeout)
        )

    def refusal(self, call: Callable[[], Any]) -> str:
        with pytest.raises(grpc.RpcError) as refused:
            call()
        return str(refused.value.details())  # type: ignore[attr-defined]


@contextlib.contextmanager
def plugin(cluster: Emulator, namespace: str, **settings: Any) -> Iterator[Plugin]:
    with provider("infra.standins.kubernetes") as started:
        given = {"kubeconfig": str(cluster.kubeconfig), "namespace": namespace, **settings}
        started.stub.Configure(provider_pb2.ConfigureRequest(args=to_struct(given)))
        yield Plugin(started.stub)


@pytest.fixture(scope="module")
def shared(cluster: Emulator) -> Iterator[Plugin]:
    """For tests of which nothing in namespace `default` stays."""
    with plugin(cluster, "default") as configured:
        yield configured


JOBSET, CONFIG_MAP = "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet", "kubernetes:core/v1:ConfigMap"


def with_spec(**fields: Any) -> dict[str, Any]:
    declared = jobset("train", slices=1, hosts=2)
    declared["spec"] |= {"suspend": True, **fields}
    return declared


def config_map(name: str = "a", namespace: str = "default", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, **fields}


@pytest.mark.parametrize(
    ("token", "manifest", "said"),
    [
        (JOBSET, with_spec(replicatedJob=[]), 'JobSet default/train: .*unknown field "spec.replicatedJob"'),
        (JOBSET, with_spec(suspend="yes"), "JobSet default/train: .*suspend of type bool"),
        (JOBSET, with_spec(successPolicy={"operator": "Most"}), 'spec.successPolicy.operator: .*"All", "Any"$'),
        (JOBSET, jobset("t" * 60, slices=1, hosts=1), "job names generated for this JobSet will exceed 63 characters"),
        (JOBSET, jobset("Train", slices=1, hosts=1), "metadata.name: Invalid value: .*lower case"),
        (CONFIG_MAP, config_map(namespace="none"), 'ConfigMap none/a: .*namespaces "none" not found'),
        (CONFIG_MAP, config_map(dta={}), 'ConfigMap default/a: .*unknown field "dta"'),
        (CONFIG_MAP, config_map(data={"a": 1}), "ConfigMap default/a: .*data of type string"),
        (
            "kubernetes:ray.io/v1:RayCluster",
            {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "q"}},
            "has no kind RayCluster in ray.io/v1; is the CustomResourceDefinition installed",
        ),
    ],
    ids=["field", "type", "enum", "long name", "name", "namespace", "core field", "core type", "kind"],
)
def test_what_the_server_refuses_is_said_at_preview(
    shared: Plugin, token: str, manifest: dict[str, Any], said: str
) -> None:
    refused = shared.refusal(lambda: shared.create(token, manifest, preview=True))
    assert re.search(said, refused), refused
    assert "\n" not in refused


def test_what_may_not_be_done_in_a_namespace_is_said_at_preview(cluster: Emulator, namespace: str) -> None:
    token = cluster.kubectl("create", "token", "default", "-n", namespace).strip()
    text = cluster.kubectl("config", "view", "--raw", "--flatten", "-o", "json")
    kubeconfig: dict[str, Any] = json.loads(text)
    kubeconfig["users"][0]["user"] = {"token": token}
    with plugin(cluster, namespace, kubeconfig=kubeconfig) as configured:
        refused = configured.refusal(lambda: configured.create(CONFIG_MAP, config_map(), preview=True))
    assert f'User "system:serviceaccount:{namespace}:default" cannot create resource "configmaps"' in refused


def test_what_a_preview_does_not_know_yet_is_left_out_and_the_rest_checked(shared: Plugin) -> None:
    labelled = with_spec()
    labelled["metadata"]["labels"] = {"state": UNKNOWN}
    planned = to_values(shared.create(JOBSET, labelled, preview=True).properties)
    assert planned["metadata"]["labels"] == {"state": UNKNOWN}
    unnamed = config_map(dta={})
    unnamed["metadata"]["namespace"] = UNKNOWN
    assert shared.create(CONFIG_MAP, unnamed, preview=True).properties
    labelled["spec"]["suspended"] = True
    assert 'unknown field "spec.suspended"' in shared.refusal(lambda: shared.create(JOBSET, labelled, preview=True))


def test_a_namespace_that_the_program_makes_need_not_be_there_yet(shared: Plugin) -> None:
    shared.create(
        "kubernetes:core/v1:Namespace",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "later"}},
        preview=True,
    )
    assert to_values(shared.create(CONFIG_MAP, config_map(namespace="later"), preview=True).properties)["kind"]
    refused = shared.refusal(lambda: shared.create(CONFIG_MAP, config_map(namespace="later", dta={}), preview=True))
    assert 'unknown field "dta"' in refused


def test_what_exists_already_is_refused_with_whose_it_is(cluster: Emulator, namespace: str) -> None:
    """By a plugin of its own: the shared one may have heard of that resource as one that is in the state."""
    cluster.kubectl("create", "configmap", "a", "-n", namespace, "--from-literal=x=1")
    theirs = config_map(namespace=namespace, data={"x": "2"})
    with plugin(cluster, namespace) as fresh:
        for preview in (True, False):
            refused = fresh.refusal(lambda preview=preview: fresh.create(CONFIG_MAP, theirs, preview=preview))
            assert re.search(
                rf"ConfigMap {namespace}/a exists already in .* made by kubectl-create; delete it", refused
            )
    with plugin(cluster, namespace, upsertExistingObjects="true") as taking:
        refused = taking.refusal(lambda: taking.create(CONFIG_MAP, theirs, preview=True))
        assert 'data.x: conflict with "kubectl-create"' in refused
        theirs["metadata"]["annotations"] = {"pulumi.com/patchForce": "true"}
        assert to_values(taking.create(CONFIG_MAP, theirs).properties)["data"] == {"x": "2"}


def test_an_object_is_taken_into_a_state_as_it_is(cluster: Emulator, shared: Plugin, namespace: str) -> None:
    cluster.kubectl("create", "configmap", "a", "-n", namespace, "--from-literal=x=1")
    request = provider_pb2.ReadRequest(id=f"{namespace}/a", urn=shared.urn(CONFIG_MAP))
    found = shared.stub.Read(request)
    declared = config_map(namespace=namespace, data={"x": "1"})
    assert to_values(found.inputs) == declared
    assert shared.diff(CONFIG_MAP, found, declared).changes == provider_pb2.DiffResponse.DIFF_NONE
    assert shared.stub.Read(provider_pb2.ReadRequest(id=f"{namespace}/b", urn=shared.urn(CONFIG_MAP))).id == ""


def test_what_cannot_change_is_replaced_and_the_rest_is_not(shared: Plugin, namespace: str) -> None:
    declared = with_spec()
    declared["metadata"]["namespace"] = namespace
    made = shared.create(JOBSET, declared)
    assert shared.diff(JOBSET, made, declared).changes == provider_pb2.DiffResponse.DIFF_NONE
    resumed, restarted = copy.deepcopy(declared), copy.deepcopy(declared)
    resumed["spec"]["suspend"] = False
    updated = shared.diff(JOBSET, made, resumed)
    assert (list(updated.replaces), list(updated.detailedDiff)) == ([], ["spec.suspend"])
    restarted["spec"]["failurePolicy"]["maxRestarts"] = 9
    replaced = shared.diff(JOBSET, made, restarted)
    assert (list(replaced.replaces), replaced.deleteBeforeReplace) == (["spec.failurePolicy.maxRestarts"], True)
    # its preview: what is there goes first, and a fault of the new one is said all the same
    assert shared.create(JOBSET, restarted, preview=True)
    restarted["spec"]["failurePolicy"]["maxRestart"] = 9
    refused = shared.refusal(lambda: shared.create(JOBSET, restarted, preview=True))
    assert 'unknown field "spec.failurePolicy.maxRestart"' in refused


def test_a_change_of_the_wrong_type_is_said_in_the_words_of_a_create(shared: Plugin, namespace: str) -> None:
    declared = config_map(namespace=namespace, data={"a": "1"})
    made = shared.create(CONFIG_MAP, declared)
    refused = shared.refusal(lambda: shared.update(CONFIG_MAP, made, declared | {"data": {"a": 1}}, preview=True))
    assert "cannot unmarshal number into Go struct field ConfigMap.data of type string" in refused
    shared.delete(CONFIG_MAP, made).result()


def test_a_delete_waits_until_it_is_gone_its_timeout_has_passed_or_somebody_ends_it(
    cluster: Emulator, namespace: str
) -> None:
    held = config_map(namespace=namespace)
    held["metadata"]["finalizers"] = ["slipway.test/held"]
    with plugin(cluster, namespace) as configured:
        made = configured.create(CONFIG_MAP, held)
        assert "not ready before its timeout" in configured.refusal(configured.delete(CONFIG_MAP, made, 1.0).result)
        waiting = configured.delete(CONFIG_MAP, made)
        cluster.kubectl(
            "patch", "configmap", "a", "-n", namespace, "--type=merge", "-p", '{"metadata": {"finalizers": null}}'
        )
        assert waiting.result() is not None
        made = configured.create(CONFIG_MAP, held)
        waiting = configured.delete(CONFIG_MAP, made)
        until(lambda: _is_ending(cluster, namespace), "the delete has begun")
        configured.stub.Cancel(empty_pb2.Empty())
        assert "stopped by Ctrl-C" in configured.refusal(waiting.result)


def _is_ending(cluster: Emulator, namespace: str) -> bool:
    core = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
    try:
        found: Any = core.read_namespaced_config_map("a", namespace)
    except ApiException:
        return False
    return bool(found.metadata.deletion_timestamp)


def test_a_cluster_that_does_not_answer_is_one_sentence_and_may_be_forgotten(cluster: Emulator, namespace: str) -> None:
    with plugin(cluster, namespace) as configured:
        made = configured.create(CONFIG_MAP, config_map(namespace=namespace))
    kubeconfig: dict[str, Any] = json.loads(cluster.kubectl("config", "view", "--raw", "--flatten", "-o", "json"))
    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    with plugin(cluster, namespace, kubeconfig=kubeconfig) as configured:
        settings = to_struct({"kubeconfig": kubeconfig})
        checked = configured.stub.CheckConfig(provider_pb2.CheckRequest(urn="urn:pulumi:t::s::p::c", news=settings))
        (failure,) = checked.failures
        assert re.fullmatch(
            r"the cluster of context 'slipway-emulated' at https://127.0.0.1:1 cannot be reached: .*refused",
            failure.reason,
        )
        refused = configured.refusal(configured.delete(CONFIG_MAP, made).result)
        assert re.search(
            "cannot be reached: .*; if the cluster is gone for good, PULUMI_K8S_DELETE_UNREACHABLE", refused
        )
    with plugin(cluster, namespace, kubeconfig=kubeconfig, deleteUnreachable=True) as configured:
        assert configured.delete(CONFIG_MAP, made).result() is not None
