"""The contracts of Vertex AI's resources: token, inputs, what a change of each means. And a custom job as JSON.

Program and provider share them, so the imports are light, and all of it is pure. Refuses to own any call
(vertex_api.py). Field names are those of google-cloud-aiplatform 2.7.0 (aiplatform_v1.types.CustomJob).
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from infra.names import STACK_LABEL
from infra.providers.resource import ignored, replaces, updates
from infra.tiers import Tier

_FIXED = "a custom job cannot be changed once it is made"
_SIZE = "the machines of a custom job are given to it as a whole"
_RUN = "its containers start with it"
_TERMS = "a custom job is scheduled on the terms it was made with"
MOST_VARIABLES = 100  # of a container
LONGEST_NAME = 128
_STRATEGIES = {Tier.SPOT: "SPOT", Tier.FLEX_START: "FLEX_START"}  # any other is STANDARD
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"


@dataclass(frozen=True)
class VertexStackGuardInputs:
    token: ClassVar[str] = "slipway:vertex:StackGuard"
    project: str = replaces("what a stack owns lies in one project")
    label: str = replaces("it is what the stack's things are found by")
    regions: list[str] = updates()  # searched at the end, those of before an update too
    owner: str = ignored(default="")  # as the stack file writes it


@dataclass(frozen=True)
class VertexJobInputs:
    """Durations in seconds (0: the service's own). `replicas` is the number of machines; `script` what bash runs in the
    container of each.

    max_wait_s: -1 is the service's own, 0 without end. reservation, tensorboard, peered_network: full names, or empty.
    output: gs://bucket/path of what the service writes itself, or empty.
    """

    token: ClassVar[str] = "slipway:vertex:Job"
    project: str = replaces("a custom job belongs to one project")
    regions: list[str] = replaces("a custom job belongs to one region")  # in the order to try them
    display_name: str = replaces(_FIXED)
    replicas: int = replaces(_SIZE)
    machine_type: str = replaces(_SIZE)
    accelerator_type: str = replaces(_SIZE)
    accelerator_count: int = replaces(_SIZE)
    boot_disk_gb: int = replaces(_SIZE)
    image: str = replaces(_RUN)
    script: str = replaces(_RUN)
    environment: dict[str, str] = replaces(_RUN)
    service_account: str = replaces(_RUN)
    tier: str = replaces(_TERMS)
    labels: dict[str, str] = replaces(_FIXED)
    reservation: str = replaces(_TERMS, default="")
    timeout_s: int = replaces(_TERMS, default=0)
    max_wait_s: int = replaces(_TERMS, default=-1)
    output: str = replaces(_FIXED, default="")
    tensorboard: str = replaces(_FIXED, default="")
    peered_network: str = replaces(_FIXED, default="")
    web_access: bool = replaces(_FIXED, default=False)
    identity: str = ignored(default="")  # of the state, as its guard has it
    wait: bool = ignored(default=True)
    wait_deadline_s: int = ignored(default=86_400)

    @property
    def identifier(self) -> str:
        """Without region and number, which another job of the same stack has too."""
        return f"{self.project}/{self.display_name}"

    @property
    def stack(self) -> str:
        """The label by which what is ours is told from what is not."""
        return self.labels[STACK_LABEL]

    def parent(self, region: str) -> str:
        return f"projects/{self.project}/locations/{region}"

    def places(self, last: str) -> tuple[str, ...]:
        """Every region where it may be: `last`, where it was seen, first, also where it is no longer listed."""
        return tuple(dict.fromkeys((*([last] if last else []), *self.regions)))


def body(new: VertexJobInputs, labels: dict[str, str] | None = None) -> dict[str, Any]:
    """The job as the API's v1 CustomJob. labels: more of them. The same in every region."""
    return {
        "displayName": new.display_name,
        "labels": new.labels | (labels or {}),
        "jobSpec": {
            "workerPoolSpecs": _pools(new),
            "scheduling": _scheduling(new),
            "serviceAccount": new.service_account,
            **({"network": new.peered_network} if new.peered_network else {}),
            **({"baseOutputDirectory": {"outputUriPrefix": new.output}} if new.output else {}),
            **({"tensorboard": new.tensorboard} if new.tensorboard else {}),
            **({"enableWebAccess": True} if new.web_access else {}),
        },
    }


def _pools(new: VertexJobInputs) -> list[dict[str, Any]]:
    """The first pool is the master, which is one machine; the others are a pool of workers."""
    counts = [1] + ([new.replicas - 1] if new.replicas > 1 else [])
    return [_pool(new, count) for count in counts]


def _pool(new: VertexJobInputs, count: int) -> dict[str, Any]:
    machine: dict[str, Any] = {"machineType": new.machine_type}
    if new.accelerator_type:
        machine |= {"acceleratorType": new.accelerator_type, "acceleratorCount": new.accelerator_count}
    if new.reservation:
        machine["reservationAffinity"] = {
            "reservationAffinityType": "SPECIFIC_RESERVATION",
            "key": _RESERVATION_KEY,
            "values": [new.reservation],
        }
    return {
        "machineSpec": machine,
        "replicaCount": str(count),  # an int64, which is a text in the API's JSON
        "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": new.boot_disk_gb},
        "containerSpec": {
            "imageUri": new.image,
            "command": ["bash", "-c"],
            "args": [_starting(new.script)],
            "env": [{"name": name, "value": value} for name, value in new.environment.items()],
        },
    }


def _starting(script: str) -> str:
    """What bash is told to run it: replicas are pods, whose arguments lose `$$` and whatever reads `$(NAME)`."""
    return f"exec bash <(base64 -d <<<'{base64.b64encode(script.encode()).decode()}')"


def _scheduling(new: VertexJobInputs) -> dict[str, Any]:
    """A training does not stand a worker that leaves and comes back alone, so the service starts all of them again."""
    return {
        "strategy": _STRATEGIES.get(Tier(new.tier), "STANDARD"),
        "restartJobOnWorkerRestart": new.replicas > 1,
        **({"timeout": f"{new.timeout_s}s"} if new.timeout_s else {}),
        **({"maxWaitDuration": f"{new.max_wait_s}s"} if new.max_wait_s >= 0 else {}),
    }


def problems(new: VertexJobInputs) -> list[tuple[str, str]]:
    """Pairs of key and one sentence for what the API would refuse minutes later."""
    refusals: list[tuple[str, str]] = []

    def refuse(key: str, sentence: str) -> None:
        refusals.append((key, sentence))

    if not new.regions:
        refuse("regions", "regions is empty; give at least one, in the order to try them")
    if new.replicas < 1:
        refuse("replicas", f"replicas is {new.replicas}; give the number of machines, from 1")
    if not 0 < len(new.display_name) <= LONGEST_NAME:
        refuse("display_name", f"display_name has {len(new.display_name)} characters; give 1 to {LONGEST_NAME}")
    if new.tier not in tuple(Tier) or new.tier == Tier.GUARANTEED:
        allowed = ", ".join(tier for tier in Tier if tier is not Tier.GUARANTEED)
        refuse("tier", f"tier is '{new.tier}'; allowed: {allowed}")
    if bool(new.reservation) != (new.tier == Tier.RESERVED):
        refuse(
            "reservation", "a reservation goes with tier reserved, whose strategy is STANDARD, and that tier with it"
        )
    if new.max_wait_s >= 0 and new.tier != Tier.FLEX_START:
        refuse("max_wait_s", f"max_wait goes with tier flex-start, not with {new.tier}")
    if len(new.environment) > MOST_VARIABLES:
        refuse("environment", f"environment has {len(new.environment)} variables; the limit is {MOST_VARIABLES}")
    if empty := [name for name, value in new.environment.items() if not value]:
        refuse("environment", f"environment has {', '.join(empty)} without a value, which the API takes as not set")
    if new.tensorboard and not (new.service_account and new.output):
        refuse("tensorboard", "a TensorBoard needs service_account and output, below which the logs lie")
    if STACK_LABEL not in new.labels:
        refuse("labels", f"labels lack '{STACK_LABEL}', by which a lost job is found again")
    return refusals


_WHOSE = ("identity", "wait", "wait_deadline_s", "regions")  # no terms


def fingerprint(new: VertexJobInputs) -> str:
    """Of all that a job is made with, wherever it is."""
    terms = {key: value for key, value in vars(new).items() if key not in _WHOSE}
    return hashlib.sha256(json.dumps(terms, sort_keys=True).encode()).hexdigest()[:12]
