"""Guardrails in a program that the real engine runs: typed resources and by token, in components and not."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.engine.test_gcp_standin import Project

PROGRAM = """
import pulumi_gcp as gcp
from infra.rules import enforce
if settings["limited"]:
    enforce.install("v6e-32", "ada@example.com", settings["allow"])
else:
    enforce.nothing_billed()

class Things(pulumi.ComponentResource):
    def __init__(self):
        super().__init__("test:index:Things", "things")
        child = pulumi.ResourceOptions(parent=self)
        network = pulumi.CustomResource("gcp:compute/network:Network", "net", {"name": "net", "mtu": 8896}, child)
        rule = {"network": network.id, "sourceRanges": settings["ranges"], "allows": [{"protocol": "tcp"}]}
        pulumi.CustomResource("gcp:compute/firewall:Firewall", "in", {"name": "in", **rule}, child)

gcp.storage.Bucket(
    "runs", name="runs-p", location="us-east5", uniform_bucket_level_access=True, public_access_prevention="enforced",
    labels={"team_name": "t"}, opts=pulumi.ResourceOptions(protect=True, retain_on_delete=True),
)
gcp.secretmanager.Secret("token", secret_id="token", replication={"auto": {}})
Things()
"""


def test_rules_and_labels_reach_every_resource_of_a_program(tmp_path: Path) -> None:
    project = Project.make(tmp_path / "project", PROGRAM)
    project.settings(limited=False, allow=[], ranges=[])
    refused = project.run("preview", "--stack", "t", refused=True)
    no_limits = "gcp:storage/bucket:Bucket 'runs' is paid for, but this target's settings have no limits"
    assert no_limits in " ".join(refused.split())
    project.settings(limited=True, allow=[], ranges=["10.0.0.0/8", "0.0.0.0/0"])
    refused = project.run("preview", "--stack", "t", refused=True)
    assert re.search(
        r"error: in \(gcp:compute/firewall:Firewall\): it lets 0\.0\.0\.0/0 in, the whole internet;"
        r" give the range that needs to get in\. If it is meant, allow it: slipway:allow: \[no-open-ingress\]",
        " ".join(refused.split()),
    )
    assert "Traceback" not in refused

    project.settings(limited=True, allow=["no-open-ingress"], ranges=["0.0.0.0/0"])
    project.run("up", "--yes", "--skip-preview", "--stack", "t")
    labels = {"slipway-owner": "ada-example-com", "slipway-stack": "v6e-32"}
    (bucket,) = project.things("storage/Bucket")
    assert json.loads(bucket.read_text())["labels"] == {"team_name": "t", **labels}
    (secret,) = project.things("secretmanager/Secret")
    assert json.loads(secret.read_text())["labels"] == labels
    (firewall,) = project.things("compute/Firewall")
    assert "labels" not in json.loads(firewall.read_text())
    project.run("preview", "--stack", "t", "--expect-no-changes")
