"""What people and scripts do to the emulated Vertex AI over HTTP: everything below /_/, and the page at /.

Each lever raises ValueError for a name that does not exist. Owns the names of these calls and what the page is told.

    GET  /_/state                     what the page shows
    GET  /_/calls, DELETE /_/calls    calls of the API until now
    POST /_/advance                   {"seconds": 60}
    POST /_/speed                     {"speed": 60}
    POST /_/machines                  {"region": "us-central1", "machine": "a3-megagpu-8g", "count": 0,
                                       "terms": "SPOT"}; without terms, of all but reservations; null is no limit
    POST /_/quota                     {"project": "p", "region": "us-central1",
                                       "metric": "custom_model_training_nvidia_h100_mega_gpus", "units": 8}
    POST /_/reservation               {"name": "projects/p/zones/us-central1-a/reservations/r", "count": 2}
    POST /_/region                    {"region": "us-central1", "closed": true}
    POST /_/account                   {"email": "a@p.iam.gserviceaccount.com", "refused": true}
    POST /_/exit                      {"job": NAME, "replica": "workerpool0-0", "code": 1}: of a pretended replica
    POST /_/preempt                   {"job": NAME}: a running Spot job loses its machines
    POST /_/maintenance               {"job": NAME, "replica": "workerpool1-0"}: its machine is replaced
    GET  /_/faults, POST /_/faults    {"kind": "CUT_AFTER", "rpc": "CreateCustomJob", "skip": 0, "times": 1, ...}
    DELETE /_/faults                  forgets all faults, and lets go what they hold
    POST /_/release                   lets go what faults hold
"""

from __future__ import annotations

from typing import Any, Protocol

from infra.emulators.call_faults import Call, Fault
from infra.emulators.rpc_emulator import Act
from infra.emulators.vertex_jobs.job_calls import JobCalls
from infra.emulators.vertex_jobs.job_cloud import JobCloud
from infra.emulators.vertex_jobs.job_records import EmulatedJob, MachineTerms, Region
from infra.emulators.vertex_jobs.job_stock import MachineLimit
from infra.emulators.vertex_jobs.replicas import PretendedReplicas

_RECENT = 60


class JobEmulator(Protocol):
    """What a script and the page may look at and change of the server (vertex_server.py)."""

    cloud: JobCloud
    job_calls: JobCalls
    calls: list[Call]
    faults: list[Fault]
    speed: float


def state(api: JobEmulator) -> dict[str, Any]:
    """What the page shows: no environment of containers, no bodies of calls."""
    cloud = api.cloud
    return {
        "now_s": cloud.now_s,
        "speed": api.speed,
        "jobs": [_job(job) for job in sorted(cloud.jobs.values(), key=lambda job: -job.create_s)],
        "machines": [{**vars(limit), "count": count} for limit, count in cloud.stock.machines.items()],
        "quotas": [
            {"region": region.name, "project": region.project, "metric": metric, "units": units}
            for (region, metric), units in cloud.stock.quotas.items()
        ],
        "reservations": [{"name": name, "count": count} for name, count in cloud.stock.reservations.items()],
        "closed": sorted(api.job_calls.closed_regions),
        "calls": [call.to_json() for call in api.calls[-_RECENT:]][::-1],
        "faults": [fault.to_json() for fault in api.faults if fault.times],
        "events": [vars(event) for event in cloud.events[-_RECENT:]][::-1],
        "call_count": api.calls[-1].number if api.calls else 0,
    }


def _job(job: EmulatedJob) -> dict[str, Any]:
    return {
        "name": job.name,
        "id": job.id,
        "title": job.message.display_name,
        "region": job.region.name,
        "project": job.project,
        "state": job.state,
        "since_s": job.update_s,
        "machines": ", ".join(f"{count} x {machine}" for machine, count in job.machines.items()),
        "terms": job.terms,
        "attempt": job.attempt,
        "failure": job.failure.message if job.failure else "",
        "replicas": {replica.name: job.exits.get(replica.name) for replica in job.replicas},
        "labels": dict(job.message.labels),
    }


def _find(api: JobEmulator, name: str) -> EmulatedJob:
    """By its name with a project's id or number, or by its id alone."""
    asked = f"{Region.of(name).parent}/customJobs/{name.rpartition('/')[2]}" if name.count("/") == 5 else name
    for job in api.cloud.jobs.values():
        if asked in (job.id, job.name):
            return job
    raise ValueError(f"there is no job {name}; jobs: {', '.join(api.cloud.jobs) or 'none'}")


def _limit[Key](limits: dict[Key, int], key: Key, count: int | None) -> None:
    if count is None:
        limits.pop(key, None)
    else:
        limits[key] = int(count)


def _machines(api: JobEmulator, arguments: dict[str, Any]) -> None:
    terms = MachineTerms(arguments["terms"]) if arguments.get("terms") else None
    limit = MachineLimit(arguments["region"], arguments["machine"], terms)
    _limit(api.cloud.stock.machines, limit, arguments["count"])


def _quota(api: JobEmulator, arguments: dict[str, Any]) -> None:
    region = Region.of(f"projects/{arguments['project']}/locations/{arguments['region']}")
    _limit(api.cloud.stock.quotas, (region, arguments["metric"]), arguments["units"])


def _member(names: set[str], name: str, inside: bool) -> None:
    (names.add if inside else names.discard)(name)


def _exit(api: JobEmulator, arguments: dict[str, Any]) -> None:
    replicas, job = api.cloud.replicas, _find(api, arguments["job"])
    if not isinstance(replicas, PretendedReplicas):
        raise TypeError("replicas are processes here: end them by what they run")
    if arguments["replica"] not in [replica.name for replica in job.replicas]:
        names = ", ".join(replica.name for replica in job.replicas)
        raise ValueError(f"there is no replica {arguments['replica']}; replicas: {names}")
    replicas.set_exit(job, arguments["replica"], int(arguments["code"]))


def _maintenance(api: JobEmulator, arguments: dict[str, Any]) -> None:
    job = _find(api, arguments["job"])
    replica = next((each for each in job.replicas if each.name == arguments["replica"]), None)
    if replica is None:
        raise ValueError(f"there is no replica {arguments['replica']}")
    api.cloud.maintain(job, replica)


LEVERS: dict[tuple[str, str], Act] = {  # beside those of every such emulator
    ("GET", "/_/state"): lambda api, _: state(api),
    ("POST", "/_/machines"): _machines,
    ("POST", "/_/quota"): _quota,
    ("POST", "/_/reservation"): lambda api, said: _limit(api.cloud.stock.reservations, said["name"], said["count"]),
    ("POST", "/_/region"): lambda api, said: _member(api.job_calls.closed_regions, said["region"], said["closed"]),
    ("POST", "/_/account"): lambda api, said: _member(api.job_calls.refused_accounts, said["email"], said["refused"]),
    ("POST", "/_/exit"): _exit,
    ("POST", "/_/preempt"): lambda api, said: api.cloud.preempt(_find(api, said["job"])),
    ("POST", "/_/maintenance"): _maintenance,
}
