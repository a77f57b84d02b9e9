"""A JobSet of 256 hosts, four slices of 64: admitted by a real API server, and asked for by `slipway status`.

The control plane is `slipway emulate cluster`'s on this machine, with JobSet's webhooks; its nodes are pretended.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from bench.record import Figure, figure
from infra.emulators.cluster.nodes import POOL
from infra.paths import ROOT, TRAINING
from infra.pods.job_set import manifests
from infra.pods.pod_group import Manifest
from infra.stack_file.settings import from_text
from infra.targets.kubernetes.settings import KubernetesSettings, bare_group
from tests.cluster.emulator import Emulator, emulate
from tests.engine.clone import Clone
from tests.engine.project import until

REPETITIONS = 5
SLICES, HOSTS_PER_SLICE = 4, 64
HOSTS = SLICES * HOSTS_PER_SLICE
_POOL, _STACK = f"a3-mega-{HOSTS_PER_SLICE}", "pods-a3-mega"


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        clone = Clone.make(root / "clone")
        with emulate(root / "cluster", *(SLICES * ("--pool", _POOL))) as cluster:
            text = _stack(cluster, root)
            (clone.directory / "stacks" / f"Pulumi.{_STACK}.yaml").write_text(text)
            *_, declared = _manifests(text)
            admitted = [_admitted(cluster, declared, number) for number in range(REPETITIONS)]
            cluster.apply(_manifests(text))
            until(lambda: _running(cluster) == HOSTS, "all pods run")
            os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
            asked = [_status(clone) for _ in range(REPETITIONS)]
    return [
        figure("job_set_of_256_hosts_admitted", admitted, "s", "<= 5"),
        figure("status_of_256_hosts", asked, "s", "<= 2"),
    ]


def _stack(cluster: Emulator, root: Path) -> str:
    document = yaml.safe_load((ROOT / "stacks" / "Pulumi.eks-h100-2.yaml").read_text())
    context = yaml.safe_load(cluster.kubeconfig.read_text())["current-context"]
    keys: dict[str, Any] = {"context": context, "accelerator": _POOL, "slices": SLICES, "exclusive_by": POOL}
    keys |= {"shared_path": str(root / "shared")}
    document["config"] |= {f"slipway:{key}": value for key, value in keys.items()}
    document["config"].pop("slipway:max_usd_per_hour", None)
    return yaml.safe_dump(document)


def _manifests(text: str) -> list[Manifest]:
    """Those of the stack file; the JobSet is the last."""
    settings = from_text(_STACK, text)
    assert isinstance(settings, KubernetesSettings)
    group = replace(bare_group(settings), bundle="0" * 16, labels={"slipway-stack": _STACK})
    return manifests(group, (TRAINING / "bootstrap.sh").read_text())


def _admitted(cluster: Emulator, declared: Manifest, number: int) -> float:
    """Seconds of `kubectl apply` of a set under a name of its own; suspended, so that the next has the same cluster."""
    name = f"admitted-{number}"
    suspended = {"metadata": {**declared["metadata"], "name": name}, "spec": {**declared["spec"], "suspend": True}}
    start = time.perf_counter()
    cluster.apply([{**declared, **suspended}])
    seconds = time.perf_counter() - start
    cluster.kubectl("delete", "jobset", name)
    return seconds


def _running(cluster: Emulator) -> int:
    listed = cluster.kubectl("get", "pods", "--field-selector=status.phase=Running", "--output=name")
    return len(listed.split())


def _status(clone: Clone) -> float:
    start = time.perf_counter()
    shown = clone.run("slipway", "status", _STACK)
    seconds = time.perf_counter() - start
    assert shown.stdout.count(" host ") >= HOSTS, shown.stdout + shown.stderr
    return seconds
