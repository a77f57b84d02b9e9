"""What is asked of gcloud, in order, what it must print and be answered. Each session has an emulator of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from infra.emulators.tpu_api import Cloud, Timings, TpuApi

PROJECT, NUMBER, ZONE, TOKEN = "slipway-demo", "212210332029", "us-east5-b", "x"
PARENT, NUMBERED = f"projects/{PROJECT}/locations/{ZONE}", f"projects/{NUMBER}/locations/{ZONE}"
_START_S = 1_800_000_000.0
_SIZE = "--accelerator-type=v6e-8 --runtime-version=v2-alpha-tpuv6e"


@dataclass(frozen=True)
class Script:
    """Something done to the emulator in between: POST /_/`path`."""

    path: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Command:
    """gcloud's arguments, without the zone. prints: what its output holds. answer: a part of the last call's JSON."""

    arguments: str
    prints: str = ""
    answer: dict[str, Any] = field(default_factory=dict[str, Any])
    ends: int = 0
    zone: str = ZONE

    def __str__(self) -> str:
        return f"{self.arguments} --zone={self.zone}"


def emulator() -> TpuApi:
    """Time passes with calls alone, a second each, so that gcloud waits for operations and every run is the same."""
    timings = Timings(
        admit_s=1, select_s=0, provision_s=1, boot_s=0, host_stagger_s=0, suspend_s=1, delete_s=1, update_s=1
    )
    return TpuApi(Cloud(timings, now_s=_START_S), token=TOKEN, seconds_per_call=1)


def _named(kind: str, *names: str) -> list[dict[str, Any]]:
    return [{"name": f"{PARENT}/{kind}/{name}"} for name in names]


def _spec(**changes: Any) -> dict[str, Any]:
    return {"tpu": {"nodeSpec": [{"parent": NUMBERED, **changes}]}}


_ACTIVE = {"state": {"state": "ACTIVE"}}
_DONE = {"done": True}
_QR, _VM = "compute tpus queued-resources", "compute tpus tpu-vm"

SESSIONS: dict[str, list[Script | Command]] = {
    "queued-resources": [
        Command(
            f"{_QR} create q {_SIZE} --node-id=q --spot --metadata=startup-script=hello --labels=team=a --tags=slipway "
            "--service-account=a@slipway-demo.iam.gserviceaccount.com --network=n --subnetwork=s --internal-ips",
            answer={"name": f"{PARENT}/queuedResources/q", "spot": {}, **_spec(nodeId="q")},
        ),
        Command(f"{_QR} list", "ACTIVE", {"queuedResources": _named("queuedResources", "q")}),
        Command(f"{_QR} list", "us-east5-b", {"queuedResources": _named("queuedResources", "q")}, zone="-"),
        Command(f"{_QR} describe q", "useTpuVm: true", {**_ACTIVE, **_spec(node={"useTpuVm": True, "bootDisk": {}})}),
        Command(f"{_QR} describe nothing", "NOT_FOUND", {"error": {"code": 404}}, ends=1),
        Command(f"{_QR} create q {_SIZE} --node-id=q", "ALREADY_EXISTS", {"error": {"code": 409}}, ends=1),
        Command(f"{_QR} delete q --quiet", "FAILED_PRECONDITION", {"error": {"code": 400}}, ends=1),
        Command(f"{_QR} reset q", answer={**_DONE, "metadata": {"verb": "reset"}}),
        Command(f"{_QR} delete q --force --quiet", "Deleted queued_resource [q]", _DONE),
        Command(f"{_QR} list", "Listed 0 items", {}),
        Command(
            f"{_QR} create m {_SIZE} --node-count=2 --node-prefix=n --guaranteed --valid-until-duration=2h",
            answer={**_spec(multisliceParams={"nodeCount": 2, "nodeIdPrefix": "n"}), "guaranteed": {}},
        ),
        Command(f"{_VM} list", "n-1", {"nodes": _named("nodes", "n-0", "n-1")}),
        Command(f"{_QR} delete m --force --quiet --async", "Delete request issued", {"metadata": {"verb": "delete"}}),
        Script("stockout", {"zone": ZONE, "accelerator": "v6e"}),
        Script("reservation", {"name": f"{PARENT}/reservations/r", "family": "v6e", "chips": 64}),
        Command(
            f"{_QR} create r {_SIZE} --node-id=r --reserved",
            answer={**_ACTIVE, "reservationName": f"{PARENT}/reservations/-"},
        ),
        Command(
            f"{_QR} create f {_SIZE} --node-id=f --reservation-host-folder=123",
            answer={**_ACTIVE, "reservationName": f"folders/123/locations/{ZONE}/reservations/-"},
        ),
        Command(
            f"{_QR} create w {_SIZE} --node-id=w --valid-after-time=2027-01-15T09:00:00Z "
            "--valid-until-time=2027-01-15T10:00:00Z",
            answer={
                "state": {"state": "WAITING_FOR_RESOURCES"},
                "queueingPolicy": {
                    "validInterval": {"startTime": "2027-01-15T09:00:00Z", "endTime": "2027-01-15T10:00:00Z"}
                },
            },
        ),
        Command(f"{_QR} create d {_SIZE} --node-id=d --valid-after-duration=1h --valid-until-duration=2h --async"),
        Script("quota", {"project": PROJECT, "place": ZONE, "family": "v6e", "units": 0, "tier": "spot"}),
        Command(
            f"{_QR} create s {_SIZE} --node-id=s --spot",
            "Quota limit 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' has been exceeded",
            {"error": {"code": 429, "details": [{"@type": "type.googleapis.com/google.rpc.QuotaFailure"}]}},
            ends=1,
        ),
        Script("refuse", {"zone": ZONE, "how": "no capacity"}),
        Command(f"{_QR} create c {_SIZE} --node-id=c", "There is no more capacity", {"error": {"code": 8}}, ends=1),
    ],
    "tpu-vm": [
        Command(f"{_VM} accelerator-types list", "v6e-8"),
        Command(f"{_VM} accelerator-types describe v6e-8", "2x4", {"type": "v6e-8"}),
        Command(f"{_VM} versions list", "v2-alpha-tpuv6e"),
        Command(f"{_VM} versions describe v2-alpha-tpuv6e", answer={"version": "v2-alpha-tpuv6e"}),
        Command(
            f"{_VM} service-identity create",
            answer={"identity": {"email": f"service-{NUMBER}@cloud-tpu.iam.gserviceaccount.com"}},
        ),
        Command(f"{_VM} create v --accelerator-type=v6e-8 --version=v2-alpha-tpuv6e --preemptible", answer=_DONE),
        Command(f"{_VM} list", "READY", {"nodes": _named("nodes", "v")}),
        Command(f"{_VM} describe v", "v6e-8", {"state": "READY", "schedulingConfig": {"spot": True}}),
        Command(
            f"{_VM} update v --description=new --update-labels=team=b --add-tags=more --update-metadata=k=v",
            "Updated tpu [v]",
            {**_DONE, "response": {"labels": {"team": "b"}, "tags": ["more"], "metadata": {"k": "v"}}},
        ),
        Command(f"{_VM} get-guest-attributes v", "t1v-n-"),
        Command(f"{_VM} get-guest-attributes v --query-path=slipway/status", "training"),
        Command(f"{_VM} stop v", answer=_DONE),
        Command(f"{_VM} start v", answer=_DONE),
        Script("node", {"node": f"{PARENT}/nodes/v", "state": "UNKNOWN", "health": "UNHEALTHY_MAINTENANCE"}),
        Script("maintenance", {"node": f"{PARENT}/nodes/v", "in_s": 600}),
        Command(f"{_VM} describe v", "windowStartTime", {"state": "UNKNOWN", "health": "UNHEALTHY_MAINTENANCE"}),
        Command(f"{_VM} delete v --quiet", "Deleted tpu [v]", _DONE),
        Command(
            f"{_VM} create w --accelerator-type=v6e-33 --version=v2-alpha-tpuv6e",
            "the accelerator v6e-33 was not found in zone us-east5-b",
            {"error": {"code": 400}},
            ends=1,
        ),
    ],
    "alpha": [
        Command(
            f"alpha {_QR} create flex {_SIZE} --node-id=flex --provisioning-model=flex-start --max-run-duration=2h",
            answer={**_ACTIVE, "provisioningModel": "FLEX_START", "runDuration": {"maxRunDuration": "7200s"}},
        ),
        Command(f"alpha {_QR} describe flex", "terminationTime", {"runDuration": {"maxRunDuration": "7200s"}}),
        Command(
            f"alpha {_QR} create best {_SIZE} --node-count=2 --best-effort --workload-type=AVAILABILITY_OPTIMIZED "
            "--autocheckpoint-enabled",
            answer=_spec(
                multiNodeParams={"nodeCount": 2, "workloadType": "AVAILABILITY_OPTIMIZED"},
                node={"autocheckpointEnabled": True},
            ),
        ),
        Script("reservation", {"name": f"{PARENT}/reservations/r", "family": "v6e", "chips": 8}),
        Command(f"alpha {_QR} create r {_SIZE} --node-id=r --reserved", answer={"guaranteed": {"reserved": True}}),
        Command(f"alpha {_QR} list", "flex", {"queuedResources": _named("queuedResources", "best", "flex", "r")}),
        Command(f"alpha {_QR} delete flex --force --quiet", "Deleted queued_resource [flex]", _DONE),
        Command(
            f"alpha {_VM} create v --accelerator-type=v6e-8 --version=v2-alpha-tpuv6e --provisioning-model=spot",
            answer={**_DONE, "response": {"schedulingConfig": {"spot": True}, "apiVersion": "V2_ALPHA1"}},
        ),
        Command(f"alpha {_VM} update v --description=new", answer={**_DONE, "response": {"description": "new"}}),
        Command(f"alpha {_VM} list", "best-1", {"nodes": _named("nodes", "best-0", "best-1", "r", "v")}),
        Command(f"alpha {_VM} describe v", "V2_ALPHA1", {"state": "READY"}),
        Command(f"alpha {_VM} delete v --quiet", "Deleted tpu [v]", _DONE),
    ],
}


def recording_of(name: str) -> str:
    """In tests/golden/."""
    return f"gcloud/{name}.json"
