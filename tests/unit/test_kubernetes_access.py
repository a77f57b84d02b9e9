"""Which cluster the stand-in for Pulumi's plugin of Kubernetes asks, and as whom: settings, kubeconfig, login."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.providers.input_types import UNKNOWN
from infra.providers.proto import provider_pb2
from infra.providers.resource import ResourceError
from infra.providers.server import to_struct
from infra.standins.kubernetes import kubeconfig, login, settings
from infra.standins.kubernetes.kubeconfig import ClusterAccess
from infra.standins.kubernetes.server import KubernetesServer
from infra.standins.kubernetes.settings import ProviderSettings


def config(name: str, **user: Any) -> dict[str, Any]:
    cluster = {"server": f"https://{name}:6443", "certificate-authority": "ca.crt"}
    return {
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"of-{name}"}}],
        "current-context": name,
    }


def write(path: Path, *configs: dict[str, Any]) -> Path:
    """One file with all that these say."""
    merged: dict[str, Any] = {"current-context": configs[0]["current-context"]}
    for key in ("clusters", "users", "contexts"):
        merged[key] = [entry for each in configs for entry in each[key]]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(merged))
    return path


def access(directory: Path, **user: Any) -> ClusterAccess:
    path = write(directory / "config", config("a", **user))
    return kubeconfig.find(ProviderSettings(kubeconfig=str(path)), {})


# --- settings ---


def test_a_setting_wins_over_its_variable_and_may_be_text() -> None:
    variables = {"PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE": "true", "PULUMI_K8S_DELETE_UNREACHABLE": "true"}
    found = settings.parse({"enableConfigMapMutable": "false", "enablePatchForce": True}, variables)
    assert (found.mutable, found.force, found.delete_unreachable) == (frozenset(), True, True)


def test_a_kubeconfig_may_be_an_object_and_a_cluster_not_known_yet() -> None:
    assert json.loads(settings.parse({"kubeconfig": config("a")}, {}).kubeconfig) == config("a")
    assert not settings.parse({"kubeconfig": UNKNOWN}, {}).is_known


def test_settings_that_the_stand_in_cannot_follow_are_refused() -> None:
    found = settings.problems({"renderYamlToDirectory": "out", "enableServerSideApply": "false", "context": "a"}, {})
    assert [key for key, _ in found] == ["renderYamlToDirectory", "enableServerSideApply"]


def difference(old: dict[str, Any], new: dict[str, Any]) -> tuple[list[str], list[str]]:
    """What has changed of a provider's settings, and what of that makes all that it has made anew."""
    request = provider_pb2.DiffRequest(olds=to_struct(old), news=to_struct(new))
    nobody: Any = None  # the engine's side of the call, which is not asked
    answer = KubernetesServer({}, "127.0.0.1:1").DiffConfig(request, nobody)
    return list(answer.diffs), list(answer.replaces)


def test_another_cluster_in_the_settings_makes_everything_anew(tmp_path: Path) -> None:
    both = str(write(tmp_path / "config", config("a"), config("b")))
    moved = str(write(tmp_path / "moved", config("a"), config("b")))
    a = {"kubeconfig": both, "context": "a"}
    assert difference(a, a | {"context": "b"}) == (["context"], ["context"])
    assert difference(a, a | {"kubeconfig": moved}) == (["kubeconfig"], [])
    assert difference(a, a | {"namespace": "other"}) == (["namespace"], [])
    assert difference(a, a | {"kubeconfig": UNKNOWN}) == (["kubeconfig"], ["kubeconfig"])
    # the surroundings' kubeconfig is not looked at, as by the plugin
    assert difference({"context": "a"}, {"context": "b"}) == (["context"], [])


# --- the kubeconfig ---


def test_the_first_of_several_files_wins_and_paths_count_from_their_own(tmp_path: Path) -> None:
    first = write(tmp_path / "one/config", config("a"))
    other = config("a") | {"clusters": [{"name": "a", "cluster": {"server": "https://other"}}]}
    second = write(tmp_path / "two/config", other, config("b"))
    variables = {"KUBECONFIG": f"{first}:{tmp_path / 'none'}:{second}"}
    found = kubeconfig.find(ProviderSettings(), variables)
    assert (found.server, found.namespace) == ("https://a:6443", "of-a")
    assert found.cluster["certificate-authority"] == str(tmp_path / "one/ca.crt")
    assert kubeconfig.find(ProviderSettings(context="b", namespace="mine"), variables).namespace == "mine"


def test_without_a_variable_it_is_in_the_home(tmp_path: Path) -> None:
    write(tmp_path / ".kube/config", config("a"))
    assert kubeconfig.find(ProviderSettings(), {"HOME": str(tmp_path)}).context == "a"


def test_its_text_is_as_good_as_its_path(tmp_path: Path) -> None:
    text = yaml.safe_dump(config("a"))
    assert kubeconfig.find(ProviderSettings(kubeconfig=text), {}).server == "https://a:6443"
    assert kubeconfig.find(ProviderSettings(kubeconfig=json.dumps(config("a"))), {}).server == "https://a:6443"


@pytest.mark.parametrize(
    ("change", "context", "said"),
    [
        ({}, "b", "context 'b' does not exist in {path}; there: a"),
        ({"clusters": []}, "a", "context 'a' names cluster 'a', which has no server in {path}"),
        ({"users": []}, "a", "context 'a' names user 'a', which {path} does not have"),
        ({"current-context": ""}, "", "no context is chosen: {path} has no current-context; set kubernetes:context"),
    ],
)
def test_what_is_wrong_with_a_kubeconfig_is_one_sentence(
    tmp_path: Path, change: dict[str, Any], context: str, said: str
) -> None:
    path = write(tmp_path / "config", config("a") | change)
    with pytest.raises(ResourceError) as refused:
        kubeconfig.find(ProviderSettings(context=context), {"KUBECONFIG": str(path)})
    assert str(refused.value) == said.format(path=path)


def test_a_machine_without_any_says_where_it_was_looked_for() -> None:
    with pytest.raises(ResourceError, match=r"no kubeconfig \(KUBECONFIG, ~/.kube/config\) has no current-context"):
        kubeconfig.find(ProviderSettings(), {})


# --- logins ---


def test_a_token_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    assert login.obtain(access(tmp_path, tokenFile="token")).headers == {"Authorization": "Bearer secret"}
    assert login.obtain(access(tmp_path, token="mine")).headers == {"Authorization": "Bearer mine"}  # noqa: S106


def test_a_certificate_may_be_data(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("KEY")
    data = base64.b64encode(b"CERTIFICATE").decode()
    found = login.obtain(access(tmp_path, **{"client-certificate-data": data, "client-key": "key.pem"}))
    assert (found.certificate, found.key) == ("CERTIFICATE", "KEY")


def program(path: Path, script: str) -> dict[str, Any]:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"command": f"./{path.name}", "args": ["get-token"], "env": [{"name": "WHO", "value": "me"}]}


def test_a_program_is_asked_beside_the_file_that_names_it(tmp_path: Path) -> None:
    credential = '{"status": {"token": "$1-$WHO"}}'.replace('"', '\\"')
    asked = program(tmp_path / "plugin", f'test -n "$KUBERNETES_EXEC_INFO" && echo "{credential}"')
    found = login.obtain(access(tmp_path, exec=asked))
    assert found.headers == {"Authorization": "Bearer get-token-me"}


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    asked = program(tmp_path / "plugin", "echo 'no login; run: aws sso login' >&2; exit 1")
    with pytest.raises(ResourceError, match="plugin, which failed: no login; run: aws sso login"):
        login.obtain(access(tmp_path, exec=asked))
    asked = {"command": "no-such-program", "installHint": "install it"}
    with pytest.raises(ResourceError, match=r"logs in by no-such-program, which does not run: .*; install it"):
        login.obtain(access(tmp_path, exec=asked))
