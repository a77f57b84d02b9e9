"""What the emulated Vertex AI refuses of a create, in its words."""

from __future__ import annotations

from typing import Any

import pytest

from infra.emulators.vertex_jobs import VertexApi
from tests.unit.vertex_jobs.caller import H100_QUOTA, PARENT, REGION, SPOT_QUOTA, Caller, CallError, pool, wanted

NAME = "compute.googleapis.com/reservation-name"
RESERVATION = f"projects/p/zones/{REGION}-a/reservations/r"


def reserved(**changes: Any) -> dict[str, Any]:
    affinity = {"reservationAffinityType": "SPECIFIC_RESERVATION", "key": NAME, "values": [RESERVATION]} | changes
    return {"reservationAffinity": affinity}


def env(count: int, value: str = "v") -> dict[str, Any]:
    return {"containerSpec": {"imageUri": "i", "env": [{"name": f"N{each}", "value": value} for each in range(count)]}}


CPU = {"machineType": "n1-standard-4", "acceleratorType": None, "acceleratorCount": None}
REFUSED: list[tuple[dict[str, Any], str]] = [
    (wanted() | {"colour": 1}, "Unknown name \"colour\" at 'custom_job': Cannot find field."),
    (wanted(schedule={}), "Unknown name \"schedule\" at 'custom_job.job_spec': Cannot find field."),
    (wanted(pools=[pool(machine={"gpus": 8})]), r"at 'custom_job.job_spec.worker_pool_specs\[0\].machine_spec'"),
    (wanted(pools=[pool(machine={"acceleratorType": "H100"})]), "Invalid enum value H100"),
    (wanted(scheduling={"timeout": "1h"}), "Invalid value at 'custom_job'"),
    (wanted(pools=[pool() | {"pythonPackageSpec": {}}]), "oneof field 'task' is already set"),
    (wanted(title=""), "found errors:\t1.Field: custom_job.display_name; Message: Required field is not set.\t"),
    (wanted(title="x" * 129), "up to 128 characters"),
    (wanted(labels={"a": "B"}), "There can be no more than 64 labels attached"),
    (wanted(labels={f"l{each}": "" for each in range(65)}), "There can be no more than 64 labels attached"),
    (wanted(pools=[]), "worker_pool_specs; Message: Required field is not set"),
    (wanted(pools=[pool(2)]), r"worker_pool_specs\[0\].replica_count"),
    (wanted(pools=[pool(), pool(0)]), r"worker_pool_specs\[1\].replica_count"),
    (wanted(pools=[pool(containerSpec={})]), r"container_spec.image_uri; Message: Required field is not set"),
    (wanted(pools=[pool(**env(101))]), r"container_spec.env; Message: Maximum limit is 100"),
    (wanted(pools=[pool(**env(1, ""))]), r"env\[0\].value; Message: Required field is not set"),
    (wanted(pools=[pool(diskSpec={"bootDiskType": "floppy"})]), "disk_spec.boot_disk_type"),
    (wanted(pools=[pool(machine={"machineType": ""})]), "machine_type; Message: Required field is not set"),
    (wanted(pools=[pool(machine={"machineType": "a9"})]), 'INVALID_ARGUMENT: Machine type "a9" is not supported.'),
    (wanted(pools=[pool(machine=CPU | {"machineType": "n1-standard-2"})]), '"n1-standard-2" is not supported'),
    (
        wanted(pools=[pool(machine={"acceleratorType": "NVIDIA_L4"})]),
        'Accelerator "NVIDIA_L4" is not supported for machine type "a3-megagpu-8g".',
    ),
    (wanted(pools=[pool(machine={"acceleratorCount": 4})]), "needs 8 of NVIDIA_H100_MEGA_80GB, not 4"),
    (wanted(network="default"), "job_spec.network"),
    (wanted(serviceAccount="me"), "job_spec.service_account"),
    (wanted(tensorboard=f"{PARENT}/tensorboards/1"), "service_account; Message: Required field is not set"),
    (wanted(baseOutputDirectory={"outputUriPrefix": "/data"}), "is not a gs:// URI"),
    (wanted(scheduling={"timeout": "-1s"}), "scheduling.timeout; Message: It is negative"),
    (wanted(scheduling={"strategy": "FLEX_START", "timeout": "700000s"}), "FLEX_START runs 7 days at most"),
    (wanted(pools=[pool(machine=CPU)], scheduling={"strategy": "FLEX_START"}), "FLEX_START needs L4, A100, H100"),
    (wanted(pools=[pool(), pool(machine=CPU)], scheduling={"strategy": "FLEX_START"}), "the same machine config"),
    (wanted(pools=[pool(machine=reserved())], scheduling={"strategy": "SPOT"}), "goes with the strategy STANDARD"),
    (wanted(pools=[pool(machine=reserved(key="k"))]), f"needs the key {NAME} and one value"),
    (wanted(pools=[pool(machine=reserved(values=[RESERVATION.replace("central1", "east4")]))]), "is not a reserv"),
    (wanted(pools=[pool(machine=reserved(reservationAffinityType="ANY_RESERVATION"))]), "Only a SPECIFIC_RESERVATION"),
    (wanted(persistentResourceId="r"), "501 UNIMPLEMENTED"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_a_job_that_cannot_be_is_refused_before_anything_is_made(caller: Caller, job: Any, sentence: str) -> None:
    with pytest.raises(CallError, match=sentence):
        caller.call("POST", f"{PARENT}/customJobs", job)
    assert caller.titles() == []


def test_every_error_is_listed_at_once(caller: Caller) -> None:
    with pytest.raises(CallError, match=r"1.Field: custom_job.display_name; .*2.Field: custom_job.labels; .*3.Field: "):
        caller.create(title="", labels={"A": "b"}, pools=[pool(2)])


@pytest.mark.parametrize(
    "job",
    [
        wanted(pools=[pool(), {}, pool(machine=CPU)]),
        wanted(pools=[pool(machine=CPU)]),
        wanted(pools=[pool(machine=CPU | {"acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 1})]),
        wanted(pools=[pool(**env(100), diskSpec={"bootDiskType": "pd-ssd", "bootDiskSizeGb": 1000})]),
        wanted(network="projects/1/global/networks/n", serviceAccount="a@p.iam.gserviceaccount.com"),
        wanted(scheduling={"strategy": "FLEX_START", "maxWaitDuration": "0s"}),
        wanted(labels={"größe": "7_b"}),
        wanted(pools=[pool(machine={"reservationAffinity": {"reservationAffinityType": "NO_RESERVATION"}})]),
        wanted(pools=[pool(replicaCount=1), pool(replicaCount="3")], enableWebAccess=True),
    ],
)
def test_a_job_that_can_be_is_made(caller: Caller, job: Any) -> None:
    assert caller.call("POST", f"{PARENT}/customJobs", job)["state"] == "JOB_STATE_QUEUED"


def test_a_machine_is_not_in_every_region(api: VertexApi) -> None:
    with (
        Caller(api, "projects/p/locations/europe-west9") as caller,
        pytest.raises(CallError, match=r'Machine type "a3-megagpu-8g" is not supported\.'),
    ):
        caller.create()


def test_more_than_the_quota_is_refused_by_the_create(api: VertexApi, caller: Caller) -> None:
    caller.control("quota", {"project": "p", "region": REGION, "metric": H100_QUOTA, "units": 8})
    with pytest.raises(CallError, match=f"429 RESOURCE_EXHAUSTED: .*exceed quota limits: .*/{H100_QUOTA}$"):
        caller.create()
    caller.create(pools=[pool()])
    caller.create(scheduling={"strategy": "SPOT"})
    caller.control("quota", {"project": "p", "region": REGION, "metric": SPOT_QUOTA, "units": 8})
    for strategy in ("SPOT", "FLEX_START"):
        with pytest.raises(CallError, match=SPOT_QUOTA):
            caller.create(scheduling={"strategy": strategy})


def test_an_account_that_the_caller_may_not_act_as_is_refused(api: VertexApi, caller: Caller) -> None:
    account = "a@p.iam.gserviceaccount.com"
    caller.control("account", {"email": account, "refused": True})
    with pytest.raises(CallError, match=f"400 INVALID_ARGUMENT: You do not have permission to act as .*: {account}"):
        caller.create(serviceAccount=account)
    caller.control("account", {"email": account, "refused": False})
    caller.create(serviceAccount=account)
