"""The stand-in for Google's plugin: a foundation's life through the real engine, and what the plugin refuses.

Where SLIPWAY_TEST_PLUGIN names the official plugin in the SDK's version, REFUSED and ACCEPTED are put to it as well: a
difference between the two is a fault of the stand-in's rules. One that happens to be on this machine is not started.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.struct_pb2 import Struct
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from infra import names
from infra.engine import google_plugin
from infra.paths import TOOLS
from infra.standins.gcp import kinds, outputs, preconditions, schema
from infra.standins.gcp.store import StandInStore
from tests.engine.google_plugin import write_plugin
from tests.engine.project import ENGINE, ROOT
from tests.google_plugin_cases import NOT_TAKEN, NOTHING, ONE_VALUE, REPLACE, TAKEN, UPDATE

STAND_IN = google_plugin.DIRECTORY / google_plugin.EXECUTABLE
PLUGINS = [STAND_IN, *(Path(path) for path in [os.environ.get("SLIPWAY_TEST_PLUGIN")] if path)]
# Without credentials the official plugin asks Google who it is, for minutes where nothing answers.
OFFLINE = {
    **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9"),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
}

# What the stand-in's world has from the beginning: a project in which these are enabled.
SERVICES = (
    *("artifactregistry", "billingbudgets", "cloudkms", "cloudresourcemanager", "compute"),
    *("iam", "secretmanager", "storage"),
)

_BEGIN = """
import json, os, pathlib, pulumi, signal
signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))  # as infra/program.py does
settings = json.loads(pathlib.Path("settings.json").read_text())
"""
_FOUNDATION = """
import pulumi_gcp as gcp
place = "europe-west4"
def compute(kind, called, **inputs):  # as Slipway's program would, but that importing gcp.compute takes two seconds
    return pulumi.CustomResource(f"gcp:compute/{kind[0].lower() + kind[1:]}:{kind}", called, inputs)
net = compute("Network", "net", name="net", autoCreateSubnetworks=False, routingMode=settings["routing"])
subnet = compute("Subnetwork", "subnet", name="subnet", network=net.id, region=place, ipCidrRange="10.0.0.0/20")
compute("Firewall", "inside", name="inside", network=net.id, allows=[{"protocol": "tcp", "ports": ["22"]}])
router = compute("Router", "router", name="router", network=net.id, region=place)
compute(
    "RouterNat", "nat", name="nat", router="router", region=place,
    sourceSubnetworkIpRangesToNat="ALL_SUBNETWORKS_ALL_IP_RANGES",
)
compute("Address", "address", region=place)
ring = gcp.kms.KeyRing("ring", name="ring", location=place)
key = gcp.kms.CryptoKey("key", name="key", key_ring=ring.id)
granted = gcp.kms.CryptoKeyIAMMember(
    "granted", crypto_key_id=key.id, role="roles/cloudkms.cryptoKeyEncrypterDecrypter",
    member="serviceAccount:service-0@gs-project-accounts.iam.gserviceaccount.com",
)
runs = gcp.storage.Bucket(
    "runs", name=settings["bucket"], location=place, labels={"slipway": "f"},
    encryption={"default_kms_key_name": key.id}, opts=pulumi.ResourceOptions(depends_on=[granted]),
)
host = gcp.serviceaccount.Account("host", account_id="slipway-host")
gcp.storage.BucketIAMMember("reads", bucket=runs.name, role="roles/storage.objectViewer", member=host.member)
gcp.projects.IAMMember("logs", project="p", role="roles/logging.logWriter", member=host.member)
gcp.artifactregistry.Repository("python", repository_id="python", location=place, format="PYTHON")
gcp.secretmanager.Secret("token", secret_id="token", replication={"auto": {}})
gcp.billing.Budget(
    "budget", billing_account="000-111", amount={"specified_amount": {"currency_code": "EUR", "units": "50"}}
)
pulumi.export("bucket", runs.url)
pulumi.export("key", key.id)
pulumi.export("email", host.email)
pulumi.export("project", gcp.organizations.get_client_config().project)
"""
_RAW = """
for name, (token, inputs) in settings.items():
    pulumi.CustomResource(token, name, inputs)
"""
_EVERYTHING = {
    *("net", "subnet", "inside", "router", "nat", "address", "ring", "key", "granted", "runs"),
    *("host", "reads", "logs", "python", "token", "budget"),
}


@dataclass(frozen=True)
class Project:
    """A project whose engine finds the stand-in as the wrapper lets it."""

    directory: Path

    @classmethod
    def make(cls, directory: Path, program: str) -> Project:
        (directory / "state").mkdir(parents=True)
        (directory / "Pulumi.yaml").write_text("name: cloud\nruntime: python\n")
        ready = "gcp:billingProject: p, gcp:userProjectOverride: true"  # without both there is no budget
        (directory / "Pulumi.t.yaml").write_text(f"config: {{gcp:project: p, {ready}}}\n")
        (directory / "__main__.py").write_text(_BEGIN + program)
        (directory / "pip.py").symlink_to(ROOT / "infra" / "pip.py")  # the engine's Python host asks it
        project = cls(directory)
        store = StandInStore(str(directory / "cloud"), "")
        for service in SERVICES:
            store.put("gcp:projects/service:Service", f"p/{service}.googleapis.com", {})
        store.put(preconditions.STORAGE_AGENT, "p", {})
        project.run("stack", "init", "t")
        return project

    def settings(self, **settings: Any) -> None:
        (self.directory / "settings.json").write_text(json.dumps(settings))

    def things(self, kind: str) -> list[Path]:
        """Files of what was made, of one kind."""
        return sorted((self.directory / "cloud").glob(f"{kind}/*.json"))

    def run(self, *arguments: str, refused: bool = False, makes: bool = True) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("GOOGLE", "SLIPWAY"))}
        environment |= {
            "PATH": os.pathsep.join([str(TOOLS), str(ENGINE), os.environ["PATH"]]),
            "PULUMI_BACKEND_URL": f"file://{self.directory / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_HOME": str(self.directory / "home"),
        }
        if makes:
            environment["SLIPWAY_STANDIN_STATE"] = str(self.directory / "cloud")
        ran = subprocess.run(
            [ENGINE / "pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=self.directory,
            env=google_plugin.with_stand_in(environment),
            capture_output=True,
            text=True,
        )
        assert (ran.returncode != 0) == refused, ran.stdout + ran.stderr
        return ran.stdout


def steps(output: str) -> dict[str, str]:
    """What is said of each resource in the end: its name and the word."""
    return dict(re.findall(r"^ +\S* +gcp:\w+:\w+ (\w+) (\w+)", output, re.MULTILINE))


def test_life_of_a_foundation(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project with a space", _FOUNDATION)
    project.settings(routing="REGIONAL", bucket="runs-p")

    planned = project.run("preview", "--stack", "t", makes=False)
    assert steps(planned) == dict.fromkeys(_EVERYTHING, "create")
    assert re.search(r"bucket +: \[unknown\]", planned)
    assert re.search(r'project *: "p"', planned)

    project.run("up", "--yes", "--skip-preview", "--stack", "t")
    outputs = json.loads(project.run("stack", "output", "--json", "--stack", "t"))
    assert outputs == {
        "bucket": "gs://runs-p",
        "key": "projects/p/locations/europe-west4/keyRings/ring/cryptoKeys/key",
        "email": "slipway-host@p.iam.gserviceaccount.com",
        "project": "p",
    }
    (bucket,) = project.things("storage/Bucket")
    assert json.loads(bucket.read_text())["encryption"] == {"defaultKmsKeyName": outputs["key"]}
    (address,) = project.things("compute/Address")
    assert re.search(r"address-[0-9a-f]{7}\.json", address.name)  # filled in, and the same ever after

    project.run("preview", "--stack", "t", "--expect-no-changes")

    project.settings(routing="GLOBAL", bucket="runs-q")
    changed = project.run("up", "--yes", "--stack", "t")  # with its preview
    assert re.search(r"~ +gcp:compute:Network net update \[diff: ~routingMode\]", changed)
    assert re.search(r"gcp:storage:Bucket runs replace \[diff: ~name\]", changed)
    assert re.search(r"gcp:storage:BucketIAMMember reads replace \[diff: ~bucket\]", changed)
    assert [path.name for path in project.things("storage/Bucket")] == ["runs-q.json"]
    assert [path.name[:12] for path in project.things("storage/BucketIAMMember")] == ["b%2Fruns-q%2"]
    assert project.things("compute/Address") == [address]

    (firewall,) = project.things("compute/Firewall")
    firewall.unlink()
    (network,) = project.things("compute/Network")
    network.write_text(network.read_text().replace('"GLOBAL"', '"REGIONAL"'))
    refreshed = project.run("refresh", "--yes", "--skip-preview", "--stack", "t")
    assert "1 deleted" in refreshed
    assert re.search(r"gcp:compute:Network net updated .*\[diff: ~routingMode\]", refreshed)
    project.run("up", "--yes", "--skip-preview", "--stack", "t")
    assert project.things("compute/Firewall") == [firewall]
    assert json.loads(network.read_text())["routingMode"] == "GLOBAL"

    project.run("destroy", "--yes", "--skip-preview", "--stack", "t")
    left = {path.parent.name for path in project.things("*/*")}
    assert left == {"Service", "getProjectServiceAccount"}, "what was there before"


def test_only_previews_where_no_directory_is_named(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", _RAW)
    project.settings(net=["gcp:compute/network:Network", {}])
    said = project.run("up", "--yes", "--stack", "t", refused=True, makes=False)
    assert steps(said)["net"] == "creating"
    assert "which only previews; nothing was made" in said
    assert f"pulumi plugin install resource gcp {schema.version()}" in said
    assert "Traceback" not in said


def test_equal_names_conflict_and_faults_of_one_resource_come_together(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", _RAW)
    bucket = ["gcp:storage/bucket:Bucket", {"name": "same", "location": "eu"}]
    project.settings(a=bucket, b=bucket)
    said = project.run("up", "--yes", "--skip-preview", "--stack", "t", refused=True)
    assert "Error 409: 'same' already exists" in said

    project.settings(net=["gcp:compute/network:Network", {"name": "Net", "routingMode": "WORLD", "colour": "red"}])
    said = project.run("preview", "--stack", "t", refused=True)
    place = r"gcp:compute/network:Network resource 'net' has a problem: "
    assert re.search(place + r"'name' is 'Net', expected a name of 1-63 .*; see 'net\.name'", said)
    assert re.search(
        place + r"'routingMode' is 'WORLD', expected one of REGIONAL, GLOBAL; see 'net\.routingMode'", said
    )
    assert re.search(place + r"'colour' is not an argument of compute\.Network; see 'net\.colour'", said)


# --- what is refused, and what is not: put to the plugin itself ---

_POOL = "gcp:container/nodePool:NodePool"
_VM = "gcp:tpu/v2Vm:V2Vm"
_NETWORK = "gcp:compute/network:Network"
_SUBNET = "gcp:compute/subnetwork:Subnetwork"
_BUCKET = "gcp:storage/bucket:Bucket"

REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown key": (_NETWORK, {"routeMode": "GLOBAL"}, "'routeMode' is not an argument of compute.Network"),
    "unknown key, nested": (
        *(_POOL, {"cluster": "c", "nodeConfig": {"machine": "n2-standard-4"}}),
        "'machine' is not an argument of container.NodePoolNodeConfig; nearest: machineType",
    ),
    "missing": (_SUBNET, {"ipCidrRange": "10.0.0.0/20"}, "'network' is required, but missing"),
    "list for object": (
        *(_POOL, {"cluster": "c", "nodeConfig": [{"spot": True}, {"spot": False}]}),
        "'nodeConfig' is a list, expected an object",
    ),
    "bucket's label": (
        *(_BUCKET, {"location": "eu", "labels": {"No Label": "x"}}),
        "'No Label' is a key of 'labels', expected 1-63 lowercase letters",
    ),
    "reservation type of a VM": (
        *(
            "gcp:compute/instance:Instance",
            {"machineType": "m", "bootDisk": {}, "networkInterfaces": [{}], "zone": "z"},
        ),
        "'type' is 'ANY_RESERVATION_THEN_FAIL', expected one of ANY_RESERVATION, SPECIFIC_RESERVATION",
    ),
    "no number": (_POOL, {"cluster": "c", "nodeCount": "four"}, "'nodeCount' is 'four', expected a whole number"),
    "routing mode": (_NETWORK, {"routingMode": "WORLD"}, "'WORLD', expected one of REGIONAL, GLOBAL"),
    "network name": (_NETWORK, {"name": "My_Net"}, "'My_Net', expected a name of 1-63 lowercase letters"),
    "CIDR": (_SUBNET, {"network": "n", "ipCidrRange": "10.0.0.300/20"}, "'10.0.0.300/20', expected a CIDR range"),
    "taint effect": (
        *(_POOL, {"cluster": "c", "nodeConfig": {"taints": [{"key": "k", "value": "v", "effect": "NEVER"}]}}),
        "'effect' is 'NEVER', expected one of NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE; see 'x.nodeConfig.taints[0]",
    ),
    "reservation affinity": (
        *(_POOL, {"cluster": "c", "nodeConfig": {"reservationAffinity": {"consumeReservationType": "SOME"}}}),
        "'consumeReservationType' is 'SOME', expected one of UNSPECIFIED, NO_RESERVATION",
    ),
    "data disk mode": (
        *(_VM, {"runtimeVersion": "r", "zone": "z", "dataDisks": [{"sourceDisk": "d", "mode": "WRITE"}]}),
        "'mode' is 'WRITE', expected one of READ_WRITE, READ_ONLY",
    ),
    "type and config": (
        *(_VM, {"runtimeVersion": "r", "zone": "z", "acceleratorType": "v6e-8"}),
        "'acceleratorType' conflicts with 'acceleratorConfig'",
    ),
}
REFUSED["reservation type of a VM"][1]["reservationAffinity"] = {"type": "ANY_RESERVATION_THEN_FAIL"}
REFUSED["type and config"][1]["acceleratorConfig"] = {"type": "V6E", "topology": "2x4"}

# The checks of these are Slipway's: a stand-in that refused them would hide that they are missing there.
ACCEPTED: dict[str, tuple[str, dict[str, Any]]] = {
    "placement": (_POOL, {"cluster": "c", "placementPolicy": {"type": "SCATTERED", "tpuTopology": "banana"}}),
    "machine type": (_POOL, {"cluster": "c", "nodeConfig": {"machineType": "ct99"}}),
    "accelerator type": (_VM, {"runtimeVersion": "r", "zone": "z", "acceleratorType": "v99-7"}),
    "mtu": (_NETWORK, {"mtu": 99999}),
    "number as text": (_NETWORK, {"mtu": "8896"}),
    "bucket": (
        _BUCKET,
        {"name": "UPPER_case", "location": "eu", "storageClass": "WARM", "labels": {"0label": "Value X"}},
    ),
    "no object": (_POOL, {"cluster": "c", "nodeConfig": []}),
    "object in a list": (_POOL, {"cluster": "c", "nodeConfig": [{"machineType": "ct99"}]}),
    "reservation of a node": (
        _POOL,
        {
            "cluster": "c",
            "nodeConfig": {"reservationAffinity": {"consumeReservationType": "ANY_RESERVATION_THEN_FAIL"}},
        },
    ),
    "empty routing mode": (_NETWORK, {"routingMode": ""}),
    "empty mode of a disk": (_VM, {"runtimeVersion": "r", "zone": "z", "dataDisks": [{"sourceDisk": "d", "mode": ""}]}),
    "lifecycle": (
        _BUCKET,
        {"location": "eu", "lifecycleRules": [{"action": {"type": "Melt"}, "condition": {"age": 1}}]},
    ),
    "unknown until up": (_SUBNET, {"network": "04da6b54-80e4-46f7-96ec-b56ff0331ba9", "ipCidrRange": "10.0.0.0/20"}),
}


def struct(values: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(values)
    return made


@dataclass(frozen=True)
class Plugin:
    """One running plugin, spoken to as the engine does."""

    stub: Any

    def configure(self, **settings: str) -> None:
        self.stub.Configure(provider_pb2.ConfigureRequest(args=struct(settings), acceptSecrets=True), timeout=900)

    def refusals(self, token: str, inputs: dict[str, Any]) -> str:
        """Why a preview of a create is refused; empty where it is not."""
        urn = f"urn:pulumi:t::cloud::{token}::x"
        given = provider_pb2.CheckRequest(urn=urn, news=struct(inputs), randomSeed=b"seed")
        try:
            checked = self.stub.Check(given, timeout=900)
            if checked.failures:
                return "\n".join(failure.reason for failure in checked.failures)
            self.stub.Create(provider_pb2.CreateRequest(urn=urn, properties=checked.inputs, preview=True), timeout=900)
        except grpc.RpcError as error:
            return str(error)
        return ""

    def replaced(self, token: str, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
        """Which inputs a change from one to the other replaces the resource for."""
        return list(self._difference(token, before, after).replaces)

    def change(self, token: str, before: dict[str, Any], after: dict[str, Any]) -> str:
        """What is done for a change from one to the other."""
        found = self._difference(token, before, after)
        changes = found.changes == provider_pb2.DiffResponse.DIFF_SOME
        return REPLACE if found.replaces else UPDATE if changes else NOTHING

    def _difference(self, token: str, before: dict[str, Any], after: dict[str, Any]) -> Any:
        urn = f"urn:pulumi:t::cloud::{token}::x"
        old, new = struct(before), struct(after)
        request = provider_pb2.DiffRequest(id="x", urn=urn, olds=old, old_inputs=old, news=new)
        return self.stub.Diff(request, timeout=900)


@pytest.fixture(params=PLUGINS, ids=lambda path: "stand-in" if path == STAND_IN else "official")
def plugin(request: pytest.FixtureRequest) -> Iterator[Plugin]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GOOGLE", "GCLOUD"))}
    with subprocess.Popen([request.param, ""], stdout=subprocess.PIPE, text=True, env=environment | OFFLINE) as process:
        assert process.stdout
        channel = grpc.insecure_channel(f"127.0.0.1:{process.stdout.readline().strip()}")
        try:
            yield Plugin(provider_pb2_grpc.ResourceProviderStub(channel))
        finally:
            channel.close()
            process.kill()


def test_refuses_what_the_official_plugin_refuses(plugin: Plugin, request: pytest.FixtureRequest) -> None:
    plugin.configure(project="p", accessToken=google_plugin.PLACEHOLDER_TOKEN)
    said = {name: plugin.refusals(token, inputs) for name, (token, inputs, _) in REFUSED.items()}
    assert [name for name, reason in said.items() if not reason] == []
    if "stand-in" in request.node.name:
        assert {name: expected for name, (_, _, expected) in REFUSED.items() if expected not in said[name]} == {}


def test_accepts_what_the_official_plugin_accepts(plugin: Plugin) -> None:
    plugin.configure(project="p", accessToken=google_plugin.PLACEHOLDER_TOKEN)
    said = {name: plugin.refusals(token, inputs) for name, (token, inputs) in ACCEPTED.items()}
    assert {name: reason for name, reason in said.items() if reason} == {}


def test_what_the_cases_say_of_values_holds(plugin: Plugin) -> None:
    plugin.configure(project="p", accessToken=google_plugin.PLACEHOLDER_TOKEN)
    taken = [(token, inputs) for token, inputs, _ in NOT_TAKEN if not plugin.refusals(token, inputs)]
    assert taken == []
    refused = {reason: inputs for token, inputs in TAKEN if (reason := plugin.refusals(token, inputs))}
    assert refused == {}


def test_what_the_cases_say_of_a_change_holds(plugin: Plugin) -> None:
    plugin.configure(project="p", accessToken=google_plugin.PLACEHOLDER_TOKEN)
    wrong = {
        (token, str(before), str(after)): plugin.change(token, before, after)
        for token, before, after, what in ONE_VALUE
        if plugin.change(token, before, after) != what
    }
    assert wrong == {}


def test_no_project_is_refused(plugin: Plugin) -> None:
    plugin.configure(accessToken=google_plugin.PLACEHOLDER_TOKEN)
    assert "project" in plugin.refusals(_NETWORK, {})
    assert plugin.refusals(_NETWORK, {"project": "p"}) == ""


def test_every_resource_type_of_the_sdk_is_understood() -> None:
    listed = (ROOT / ".venv/lib/python3.12/site-packages/pulumi_gcp/__init__.py").read_text()
    tokens = re.findall(r'"(gcp:\w+/\w+:\w+)": "\w+"', listed)
    assert len(tokens) > 1000
    for token in tokens:
        found = schema.resource_type(token)
        assert found and found.outputs, token
        nested = [field.type for field in found.inputs.values() if isinstance(field.type, schema.ObjectOf)]
        assert all(schema.object_fields(each) is not None for each in nested), token


def test_account_of_a_domain_scoped_project_has_the_address_that_names_say() -> None:
    token = "gcp:serviceaccount/account:Account"
    resource = schema.resource_type(token)
    assert resource is not None
    named = names.of("example.com:x", "us-central1", "slipway")
    inputs = {"accountId": named.account_id, "project": named.project}
    _, made = outputs.created(kinds.of(token, resource), resource, "urn", inputs, {})
    assert made["member"] == f"serviceAccount:{named.account_email}"


# --- what a change replaces ---


@pytest.mark.parametrize(
    ("before", "after", "replaced"),
    [
        ("10.0.0.0/20", "10.0.0.0/16", False),
        ("10.0.16.0/20", "10.0.0.0/16", False),
        ("10.0.0.0/20", "10.0.0.0/24", True),
        ("10.0.0.0/20", "10.1.0.0/16", True),
        ("10.0.0.0/20", None, False),  # what Google has chosen stays
    ],
)
def test_only_a_wider_range_of_a_subnet_is_an_update(
    plugin: Plugin, before: str, after: str | None, replaced: bool
) -> None:
    plugin.configure(project="p", accessToken=google_plugin.PLACEHOLDER_TOKEN)
    inputs: dict[str, Any] = {"name": "s", "network": "n", "region": "r"}
    changed = inputs | ({"ipCidrRange": after} if after else {})
    assert plugin.replaced(_SUBNET, inputs | {"ipCidrRange": before}, changed) == (["ipCidrRange"] if replaced else [])


# --- which plugin the engine gets (what it answers: test_google_plugin.py) ---


def test_stand_in_comes_last_on_path_or_first_before_something_else_of_its_name() -> None:
    last = google_plugin.with_stand_in({"PATH": "/a:/b"})
    assert last == {"PATH": f"/a:/b:{google_plugin.DIRECTORY}"}
    assert google_plugin.with_stand_in(last) == last
    assert google_plugin.with_stand_in(last, first=True) == {"PATH": f"{google_plugin.DIRECTORY}:/a:/b"}
    assert google_plugin.with_stand_in(
        {"PATH": "/a", "PULUMI_IGNORE_AMBIENT_PLUGINS": "true"}
    ) == google_plugin.with_stand_in({"PATH": "/a"})
    assert google_plugin.choose(
        {"PATH": f"{google_plugin.DIRECTORY}:{google_plugin.CHOSEN}", "PULUMI_HOME": "/none"}, "1"
    ) == (google_plugin.Choice(None))


def test_plugin_that_is_only_half_installed_is_not_there(tmp_path: Path) -> None:
    installed = write_plugin(tmp_path / "plugins/resource-gcp-v10.2.0", tmp_path / "log", "10.2.0")
    environment = {"PATH": "", "PULUMI_HOME": str(tmp_path)}
    assert google_plugin.choose(environment, "10.2.0") == google_plugin.Choice(installed)
    assert google_plugin.choose(environment, "9.35.0") == google_plugin.Choice(
        None
    )  # the engine wants the SDK's version
    installed.parent.with_name("resource-gcp-v10.2.0.partial").touch()
    assert google_plugin.choose(environment, "10.2.0") == google_plugin.Choice(None)
