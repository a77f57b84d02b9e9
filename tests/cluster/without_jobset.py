"""The cluster of all tests as one that nobody has prepared, and as it was again."""

from __future__ import annotations

import contextlib
import functools
import json
import threading
import time
from collections.abc import Generator
from pathlib import Path

from infra.emulators.cluster import built_programs
from infra.emulators.cluster.built_programs import Manifest
from infra.pods import job_set_release
from infra.providers.resource import Context
from tests.cluster.emulator import Emulator
from tests.cluster.jobsets import Namespace, jobset
from tests.engine.project import until

# What the emulated cluster's own JobSet has none of: its controller is a process beside it.
_OF_PODS = ("Deployment", "Service", "ConfigMap")
_SERVED = "v1alpha2.jobset.x-k8s.io"
_KEPT = ("name", "namespace", "labels", "annotations")


@functools.cache  # it is found by HOME, which a test may change
def published() -> Path:
    """The file of manifests, as an operator without a way to the release brings it."""
    return built_programs.find().directory / "manifests" / "jobset.yaml"


def released() -> list[Manifest]:
    return job_set_release.manifests_in(published().read_text(), "the built one")


def there(cluster: Emulator) -> list[str]:
    """Paths of what of the release the API server has."""
    by_list: dict[str, list[str]] = {}
    for each in map(job_set_release.path, released()):
        by_list.setdefault(each.rpartition("/")[0], []).append(each)
    found: list[str] = []
    for listed, paths in by_list.items():
        items = json.loads(cluster.kubectl("get", "--raw", listed))["items"]
        names = {each["metadata"]["name"] for each in items}
        found += [path for path in paths if path.rpartition("/")[2] in names]
    return found


def asked(lines: list[str]) -> Context:
    """As the engine asks a resource; what it says is added to the lines."""
    return Context("urn:pulumi:s::p::t::n", time.monotonic() + 300, threading.Event(), lines.append, lines.append)


@contextlib.contextmanager
def taken_out(cluster: Emulator) -> Generator[None]:
    """Meanwhile; in the end it has JobSet as before, and its controller has heard of that."""
    own = [each for each in released() if each["kind"] not in _OF_PODS]
    kept = [json.loads(cluster.kubectl("get", "--raw", job_set_release.path(each))) for each in own]
    for each in reversed(own):
        cluster.kubectl("delete", "--raw", job_set_release.path(each))
    until(lambda: not there(cluster), "JobSet is gone")
    try:
        yield
    finally:
        for each in kept:
            each["metadata"] = {key: each["metadata"][key] for key in _KEPT if key in each["metadata"]}
            each.pop("status", None)
        _put_back(cluster, kept)


def _put_back(cluster: Emulator, kept: list[Manifest]) -> None:
    namespace, definition, *others = kept
    cluster.apply([namespace, definition])
    until(lambda: _SERVED in cluster.kubectl("get", "apiservices", "--output=name"), "JobSets are served")
    cluster.apply(others)
    cluster.kubectl("create", "namespace", "jobset-again")
    again = Namespace(cluster.kubeconfig, "jobset-again")
    again.create(jobset("works", slices=1, hosts=4))
    until(lambda: again.running() == 4, "JobSet's controller makes pods again")
    again.clear()
    cluster.kubectl("delete", "namespace", "jobset-again")
