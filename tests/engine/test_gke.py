"""Targets gke-tpu and gke-gpu through the real engine: previews of each shape, lives of clusters with nothing in them.

Google's plugin is the stand-in. What runs in a cluster is in tests/cluster/.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import names
from infra.emulated import STORAGE
from infra.emulators.object_store import ObjectStore
from infra.gke import clusters
from infra.preview.planned_changes import changes
from infra.standins.gcp.store import STATE_VARIABLE, StandInStore
from tests.engine.clone import ROOT, Clone, said

PROJECT, REGION = "real-project", "us-central1"
NAMES = names.of(PROJECT, REGION, "slipway")
STACK = "gke-tpu7x-16"
OF_GPUS = "gke-a3-mega-2"
CLUSTER, POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
NETWORK, WITHIN = "gcp:compute/network:Network", ("gcp:compute/subnetwork:Subnetwork", "gcp:compute/firewall:Firewall")
_ENABLED = ("artifactregistry", "cloudresourcemanager", "compute", "iam", "storage")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("gke-tpu") / "clone")


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No account."""
    for variable in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offline: None) -> Iterator[StandInStore]:
    """A project with what a foundation has made and a stack of this target looks for."""
    directory = str(tmp_path / "google")
    made = StandInStore(directory, "")
    for service in _ENABLED:
        made.put("gcp:projects/service:Service", f"{PROJECT}/{service}.googleapis.com", {})
    made.put("gcp:compute/network:Network", NAMES.network_path, {})
    with ObjectStore(tmp_path / "buckets", tuple(NAMES.buckets.values())) as buckets:
        monkeypatch.setenv(STORAGE, buckets.url)
        monkeypatch.setenv(STATE_VARIABLE, directory)
        yield made


def write(clone: Clone, stack: str = STACK, **changes: Any) -> None:
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{stack}.yaml").read_text())
    values = {"project": PROJECT, "fit": "unchecked"} | changes
    document["config"] |= {f"slipway:{key}": value for key, value in values.items()}
    (clone.directory / "stacks" / f"Pulumi.{stack}.yaml").write_text(yaml.safe_dump(document))


def there(google: StandInStore, token: str) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in google.every(token)}


@pytest.mark.usefixtures("offline")
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("stack", "pools", "policies"),
    [
        *(("gke-v6e-16x4", 4, 0), ("gke-tpu7x-8", 1, 0), ("gke-tpu7x-64.flex", 1, 1), ("gke-v6e-32.spot", 1, 0)),
        *(("gke-a3-mega-2", 1, 0), ("gke-a3-mega-2.spot", 1, 0), ("gke-a3-mega-32", 1, 0)),
    ],
)
def test_each_shape_previews_without_an_account(clone: Clone, stack: str, pools: int, policies: int) -> None:
    preview = clone.pulumi("preview", stack, "--json")
    assert preview.returncode == 0, said(preview)
    made = [change.resource for change in changes(preview.stdout) if change.action == "create"]
    of_slices = [resource for resource in made if resource.startswith(f"{POOL} slice-")]
    of_places = [resource for resource in made if resource.startswith("gcp:compute/resourcePolicy:")]
    assert (len(of_slices), len(of_places)) == (pools, policies)
    assert {f"{CLUSTER} cluster", f"{POOL} system", "slipway:stack:StackGuard guard", "slipway:run:Run run"} < {*made}
    assert "kubernetes:jobset.x-k8s.io/v1alpha2:JobSet pods" in made
    of_cards = [resource for resource in made if resource.startswith(f"{NETWORK} data-")]
    assert len(of_cards) == (8 if "a3-mega" in stack else 0)


def test_life_of_a_cluster_without_a_workload(clone: Clone, google: StandInStore) -> None:
    """Made, unchanged, of another topology, looked for by label, taken away."""
    write(clone, workload="none")
    assert (up := clone.pulumi("up", STACK)).returncode == 0, said(up)
    (cluster,) = there(google, CLUSTER).values()
    assert cluster["resourceLabels"]["slipway-stack"] == STACK
    small = there(google, POOL)
    assert {name: pool["nodeCount"] for name, pool in small.items()} == {"system": 1, "tpu7x-2x2x2-0": 2}
    placed = small["tpu7x-2x2x2-0"]["placementPolicy"]
    assert placed["policyName"] == "slipway-gke-tpu7x-16-tpu7x-2x2x2-0"
    again = clone.pulumi("preview", STACK, "--expect-no-changes", "--diff", "--color", "never")
    assert again.returncode == 0, said(again)

    write(clone, workload="none", accelerator="tpu7x-2x2x4")
    assert (changed := clone.pulumi("up", STACK)).returncode == 0, said(changed)
    assert {name: pool["nodeCount"] for name, pool in there(google, POOL).items()} == {
        "system": 1,
        "tpu7x-2x2x4-0": 4,
    }
    assert there(google, CLUSTER) == {cluster["name"]: cluster}, "the cluster stays"
    assert len(google.every("gcp:compute/resourcePolicy:ResourcePolicy")) == 1

    (billed,) = clusters.billed(PROJECT, print)
    assert (billed.stack, billed.name.rpartition("/")[2]) == (STACK, "slipway-gke-tpu7x-16")

    assert (gone := clone.pulumi("destroy", STACK)).returncode == 0, said(gone)
    left = ("gcp:compute/resourcePolicy:ResourcePolicy", "gcp:serviceaccount/account:Account", CLUSTER, POOL)
    assert [google.every(token) for token in left] == [[]] * 4
    assert clone.status(STACK)["phase"] == "absent"


def test_networks_of_gpus_come_and_go_with_their_cluster_and_others_have_to_fit(
    clone: Clone, google: StandInStore
) -> None:
    """Some that are there and too small, then its own: made, unchanged, of more nodes, taken away."""
    theirs = [f"projects/{PROJECT}/global/networks/theirs-{index}" for index in range(8)]
    for index, path in enumerate(theirs):
        google.put(NETWORK, path, {"name": path.rpartition("/")[2], "mtu": 1460 if index == 3 else 8244})
    write(clone, OF_GPUS, workload="none", data_networks=[f"theirs-{index}/subnet" for index in range(8)])
    refused = clone.pulumi("preview", OF_GPUS)
    assert refused.returncode != 0
    assert "network theirs-3 has an MTU of 1460, and GPUs' data go in packets of 8244" in said(refused)
    assert "Traceback" not in said(refused)

    write(clone, OF_GPUS, workload="none")
    before = len(google.every(NETWORK))
    assert (up := clone.pulumi("up", OF_GPUS)).returncode == 0, said(up)
    own = [each for each in google.every(NETWORK) if "-data-" in each.get("name", "")]
    assert [each["mtu"] for each in own] == [8244] * 8
    assert [len(google.every(token)) for token in WITHIN] == [8, 8]
    pool = there(google, POOL)["a3-mega-0"]
    cards = pool["networkConfig"]["additionalNodeNetworkConfigs"]
    assert {each["network"] for each in cards} == {each["name"] for each in own}
    again = clone.pulumi("preview", OF_GPUS, "--expect-no-changes", "--diff", "--color", "never")
    assert again.returncode == 0, said(again)

    write(clone, OF_GPUS, workload="none", accelerator="a3-mega-4", max_usd_per_hour=500)
    assert (grown := clone.pulumi("up", OF_GPUS)).returncode == 0, said(grown)
    assert there(google, POOL)["a3-mega-0"]["nodeCount"] == 4

    assert (gone := clone.pulumi("destroy", OF_GPUS)).returncode == 0, said(gone)
    left = (*WITHIN, "gcp:serviceaccount/account:Account", CLUSTER, POOL)
    assert [google.every(token) for token in left] == [[]] * len(left)
    assert len(google.every(NETWORK)) == before, "others stay"


def test_what_a_killed_up_has_left_is_found_by_label_and_taken_away_with_its_pools(google: StandInStore) -> None:
    path = f"projects/{PROJECT}/locations/{REGION}/clusters/slipway-x"
    labels = {"slipway-owner": "me", "slipway-stack": "x", "slipway-state": "0a1b2c-0123456789ab"}
    ours = {"name": "slipway-x", "project": PROJECT, "location": REGION, "resourceLabels": labels}
    google.create(CLUSTER, path, ours)
    google.create(POOL, f"{path}/nodePools/system", {"name": "system"})
    google.create(CLUSTER, f"{path}-theirs", ours | {"name": "slipway-x-theirs", "resourceLabels": {}})
    (billed,) = clusters.billed(PROJECT, print)
    assert (billed.name, billed.owner, billed.owner_digest) == (path, "me", "0a1b2c")
    assert clusters.remove([billed.name], print) == [path]
    assert (list(there(google, CLUSTER)), google.every(POOL)) == (["slipway-x-theirs"], [])
