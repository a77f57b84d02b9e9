"""What stands in a state beside a resource's properties, so that Google's plugin takes it for its own."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.struct_pb2 import Struct

from infra.providers.server import to_struct
from infra.standins.gcp import schema, state_form
from infra.standins.gcp.store import MARK

BUCKET, GRANT = "gcp:storage/bucket:Bucket", "gcp:projects/iAMMember:IAMMember"
POOL, NAT = "gcp:container/nodePool:NodePool", "gcp:compute/routerNat:RouterNat"


def written(token: str, **properties: Any) -> dict[str, Any]:
    resource = schema.resource_type(token)
    assert resource is not None
    return state_form.written(token, resource, "the-id", properties)


def recovered(delta: dict[str, Any], value: Any) -> Any:
    """The provider's own state of a value, as the bridge makes it (RawStateDelta.Recover)."""
    if "plu" in delta:
        return [] if value is None else [recovered(delta["plu"].get("i", {}), value)]
    if "arr" in delta:
        elements = delta["arr"].get("el", {})
        return [recovered(elements.get(str(index), {}), each) for index, each in enumerate(value)]
    if "map" in delta:
        assert isinstance(value, dict)
        return value
    if "obj" in delta:
        parts, renamed = delta["obj"].get("ps", {}), delta["obj"].get("renamed", {})
        kept = {key: each for key, each in value.items() if key not in delta["obj"].get("ignored", [])}
        return {
            renamed.get(key, snake(key)): recovered(parts.get(key, {}), each)
            for key, each in kept.items()
            if not key.startswith("__")
        }
    assert not isinstance(value, dict), "an object or a map: the bridge would not know which"
    return value


def snake(key: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)


def of_provider(token: str, **properties: Any) -> dict[str, Any]:
    outputs = written(token, **properties)
    return recovered(outputs["__pulumi_raw_state_delta"], outputs)


def test_the_providers_own_state_can_be_made_of_it() -> None:
    rules = [{"action": {"type": "Delete"}, "condition": {"age": 30}}]
    state = of_provider(
        BUCKET, name="b", labels={"a": "b"}, versioning={"enabled": True}, lifecycleRules=rules, pulumiLabels={"a": "b"}
    )
    assert state["id"] == "the-id"
    assert state["versioning"] == [{"enabled": True}]
    assert state["labels"] == state["terraform_labels"] == {"a": "b"}
    (rule,) = state["lifecycle_rule"]
    assert rule["action"] == [{"storage_class": None, "type": "Delete"}]
    assert rule["condition"][0]["age"] == 30
    assert (state["autoclass"], state["cors"], state["rpo"]) == ([], [], None)


def test_names_that_are_plural_to_the_sdk_are_not_to_the_provider() -> None:
    accelerators = [{"type": "t", "count": 8, "gpuDriverInstallationConfig": {"gpuDriverVersion": "LATEST"}}]
    state = of_provider(POOL, nodeConfig={"guestAccelerators": accelerators, "oauthScopes": ["s"]})
    (config,) = state["node_config"]
    (accelerator,) = config["guest_accelerator"]
    assert accelerator["gpu_driver_installation_config"] == [{"gpu_driver_version": "LATEST"}]
    assert config["oauth_scopes"] == ["s"]
    assert of_provider(NAT, subnetworks=[{"name": "n"}])["subnetwork"][0]["name"] == "n"


def test_the_stand_ins_own_key_is_passed_over() -> None:
    outputs = written(BUCKET, **{"name": "b", MARK: "/directory"})
    assert outputs["__pulumi_raw_state_delta"]["obj"]["ignored"] == [MARK]


def test_a_state_is_never_deeper_than_the_engines_protocol() -> None:
    authority = {"gcpSecretManagerCertificateConfig": {"secretUri": "s"}}
    registry = {"privateRegistryAccessConfig": {"enabled": True, "certificateAuthorityDomainConfigs": [authority]}}
    pools = [{"name": "p", "nodeConfig": {"containerdConfig": registry}}]
    outputs = written("gcp:container/cluster:Cluster", nodePools=pools)
    assert "__pulumi_raw_state_delta" not in outputs
    assert Struct.FromString(to_struct(outputs).SerializeToString())


def test_limits_and_version_stand_beside_a_resource_and_not_beside_a_grant() -> None:
    limits = json.loads(written(BUCKET, name="b")["__meta"])
    assert limits == {
        "e2bfb730-ecaa-11e6-8f88-34363bc7c4c0": {"create": 600000000000, "read": 240000000000, "update": 240000000000},
        "schema_version": "4",
    }
    assert "__meta" not in written(GRANT, role="r", member="m", project="p")
