"""A JobSet of 256 hosts on the emulated cluster: how long the real API server takes to admit it, and `slipway status`.

Needs the programs of `tools/cluster.sh`. Nodes are pretended, so what pods do costs nothing.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from pathlib import Path

import pytest
import yaml

from bench.record import Figure, figure
from infra.names import labels
from infra.pods.job_set import job_set
from infra.pods.pod_group import PodGroup
from infra.stack_file.settings import from_text
from infra.targets.kubernetes.settings import KubernetesSettings
from tests.cluster.emulator import Emulator, emulate
from tests.engine.clone import ROOT, Clone
from tests.engine.project import until

STACK, SIZE, SLICES, HOSTS = "kwok-a3-mega-64x4", "a3-mega-64", 4, 256
REPETITIONS = 5


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        work = Path(name)
        with emulate(work / "cluster", *(["--pool", SIZE] * SLICES)) as cluster:
            patch.setenv("KUBECONFIG", str(cluster.kubeconfig))
            clone = Clone.make(work / "clone")
            settings = _written(clone, cluster, work)
            admitted = [_admitted(cluster, settings.group, number) for number in range(REPETITIONS)]
            until(lambda: len(clone.status(STACK)["hosts"]) == HOSTS, "every host is seen")
            looked = [_seconds_of_status(clone) for _ in range(REPETITIONS)]
    return [
        figure("job_set_of_256_hosts_admitted", admitted, "s", "<= 5"),
        figure("status_of_256_hosts", looked, "s", "<= 2"),
    ]


def _written(clone: Clone, cluster: Emulator, work: Path) -> KubernetesSettings:
    document = yaml.safe_load((ROOT / "stacks" / "Pulumi.eks-h100-2.yaml").read_text())
    context = yaml.safe_load(cluster.kubeconfig.read_text())["current-context"]
    values = {"context": context, "accelerator": SIZE, "slices": SLICES, "shared_path": str(work)}
    document["config"] |= {f"slipway:{key}": value for key, value in values.items()}
    text = yaml.safe_dump(document)
    (clone.directory / "stacks" / f"Pulumi.{STACK}.yaml").write_text(text)
    settings = from_text(STACK, text)
    assert isinstance(settings, KubernetesSettings)
    return settings


def _admitted(cluster: Emulator, group: PodGroup, number: int) -> float:
    """Seconds of kubectl's whole call; the last one stays."""
    ours = job_set(_labelled(group), {"bootstrap.sh": "true"})
    document = json.dumps(ours)
    start = time.perf_counter()
    cluster.kubectl("create", "--validate=strict", "--filename=-", given=document)
    seconds = time.perf_counter() - start
    if number < REPETITIONS - 1:
        cluster.kubectl("delete", "jobset", group.name, "--cascade=foreground", "--wait")
    return seconds


def _labelled(group: PodGroup) -> PodGroup:
    return dataclasses.replace(group, bundle="0" * 16, labels=labels("ada", STACK))


def _seconds_of_status(clone: Clone) -> float:
    start = time.perf_counter()
    assert len(clone.status(STACK)["hosts"]) == HOSTS
    return time.perf_counter() - start
