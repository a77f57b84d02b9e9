"""What Vertex AI refuses of a new custom job before it makes anything.

Rules come from the client's docstrings and Google's pages; the form of the sentence ("List of found errors"), the
words on labels, machine types, accelerators and service accounts were seen in public reports. What they leave open is
marked "our choice". Owns the rules that need only the call. Refuses to own quotas and machines (job_cloud.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from infra.emulators.rpc_errors import Code, RpcError
from infra.emulators.vertex_jobs import job_messages, machines
from infra.emulators.vertex_jobs.job_records import Region

_REQUIRED = "Required field is not set."
_LABELS = (
    "There can be no more than 64 labels attached to a single resource. Label keys and values can only contain "
    "lowercase letters, numbers, dashes and underscores. Label keys must start with a letter or number, must be less "
    "than 64 characters in length, and must be less that 128 bytes in length when encoded in UTF-8. Label values must "
    "be less than 64 characters in length, and must be less that 128 bytes in length when encoded in UTF-8."
)
_OUTPUT_ONLY = (
    *("name", "state", "create_time", "start_time", "end_time", "update_time", "error", "web_access_uris"),
    *("satisfies_pzs", "satisfies_pzi"),
)
_NETWORK = re.compile(r"projects/[^/]+/global/networks/[^/]+")
_ACCOUNT = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_TENSORBOARD = re.compile(r"projects/[^/]+/locations/([^/]+)/tensorboards/[^/]+")
_RESERVATION = re.compile(r"projects/[^/]+/zones/([^/]+)/reservations/[^/]+")
_RESERVATION_KEY = "compute.googleapis.com/reservation-name"
_DISKS = ("", "pd-ssd", "pd-standard", "hyperdisk-balanced")
_QUEUED_GPUS = re.compile(r"NVIDIA_(L4|TESLA_A100|A100_80GB|H100_80GB|H100_MEGA_80GB|H200_141GB|B200)")
_LONGEST_FLEX_S = 7 * 86_400
_MOST_ENV, _MOST_POOLS = 100, 4


@dataclass
class Findings:
    """What is wrong with a request: the service lists all of it at once."""

    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def add(self, name: str, message: str) -> None:
        self.fields.append((name, message))

    def require(self, name: str, value: Any) -> bool:
        if not value:
            self.add(name, _REQUIRED)
        return bool(value)

    def match(self, name: str, value: str, pattern: re.Pattern[str]) -> None:
        if value and not pattern.fullmatch(value):
            self.add(name, f"{value!r} does not match {pattern.pattern} (our choice of words).")

    def end(self) -> None:
        """Raises RpcError if anything was found."""
        if self.fields:
            listed = "".join(f"\t{number}.Field: {name}; Message: {message}"
                             for number, (name, message) in enumerate(self.fields, 1))  # fmt: skip
            violations = [{"field": name, "description": message} for name, message in self.fields]
            detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations}
            raise RpcError(Code.INVALID_ARGUMENT, f"List of found errors:{listed}\t", [detail])


def checked(region: Region, job: Any) -> Any:
    """The job as it is kept: what only the service sets is ignored. Raises RpcError."""
    kept = type(job)()
    kept.CopyFrom(job)
    for name in _OUTPUT_ONLY:
        kept.ClearField(name)
    found, spec = Findings(), kept.job_spec
    if found.require("custom_job.display_name", kept.display_name) and len(kept.display_name) > 128:
        found.add("custom_job.display_name", "The name can be up to 128 characters long.")
    if not _labels_are_good(kept.labels):
        found.add("custom_job.labels", _LABELS)
    if spec.persistent_resource_id:
        raise RpcError(Code.UNIMPLEMENTED, "The emulator has no persistent resources.")
    if found.require("custom_job.job_spec.worker_pool_specs", spec.worker_pool_specs):
        _check_pools(found, spec)
    _check_places(found, spec)
    _check_scheduling(found, spec)
    found.end()
    for pool in spec.worker_pool_specs:
        if pool.replica_count and (complaint := machines.complaint(pool.machine_spec, region.name)):
            raise RpcError(Code.INVALID_ARGUMENT, complaint)
    _check_reservations(found, spec, region)
    found.end()
    return kept


def _labels_are_good(labels: Any) -> bool:
    return len(labels) <= 64 and all(
        key[:1].isalnum() and all(map(_is_label_text, (key, value))) for key, value in labels.items()
    )


def _is_label_text(text: str) -> bool:
    """International letters are allowed."""
    signs = all(sign in "_-" or (sign.isalnum() and sign == sign.lower()) for sign in text)
    return signs and len(text) < 64 and len(text.encode()) < 128


def _check_pools(found: Findings, spec: Any) -> None:
    pools = "custom_job.job_spec.worker_pool_specs"
    if len(spec.worker_pool_specs) > _MOST_POOLS:
        found.add(pools, f"at most {_MOST_POOLS} worker pools (our choice of words).")
    for index, pool in enumerate(spec.worker_pool_specs):
        name = f"{pools}[{index}]"
        if index and not pool.ByteSize():
            continue  # one that is skipped
        if index == 0 and pool.replica_count != 1:
            found.add(f"{name}.replica_count", "The primary replica's pool has a replica count of 1 (our choice).")
        elif pool.replica_count < 1:
            found.add(f"{name}.replica_count", "The replica count is at least 1 (our choice of words).")
        found.require(f"{name}.machine_spec.machine_type", pool.machine_spec.machine_type)
        if pool.disk_spec.boot_disk_type not in _DISKS:
            found.add(f"{name}.disk_spec.boot_disk_type", f"one of {', '.join(_DISKS[1:])}.")
        task = pool.WhichOneof("task")
        if found.require(f"{name}.task", task):
            _check_task(found, f"{name}.{task}", getattr(pool, task))


def _check_task(found: Findings, name: str, task: Any) -> None:
    for required in ("image_uri", "executor_image_uri", "package_uris", "python_module"):
        if required in task.DESCRIPTOR.fields_by_name:
            found.require(f"{name}.{required}", getattr(task, required))
    if len(task.env) > _MOST_ENV:
        found.add(f"{name}.env", f"Maximum limit is {_MOST_ENV}.")
    for index, variable in enumerate(task.env):  # an empty value counts as not set, as seen of another resource's
        found.require(f"{name}.env[{index}].name", variable.name)
        found.require(f"{name}.env[{index}].value", variable.value)


def _check_places(found: Findings, spec: Any) -> None:
    name = "custom_job.job_spec"
    found.match(f"{name}.network", spec.network, _NETWORK)
    found.match(f"{name}.service_account", spec.service_account, _ACCOUNT)
    found.match(f"{name}.tensorboard", spec.tensorboard, _TENSORBOARD)
    if spec.tensorboard:
        found.require(f"{name}.service_account", spec.service_account)
    output = spec.base_output_directory.output_uri_prefix
    if spec.HasField("base_output_directory") and not output.startswith("gs://"):
        found.add(f"{name}.base_output_directory.output_uri_prefix", f"{output!r} is not a gs:// URI.")


def _check_scheduling(found: Findings, spec: Any) -> None:
    name, scheduling = "custom_job.job_spec.scheduling", spec.scheduling
    for each in ("timeout", "max_wait_duration"):
        if job_messages.seconds_of(getattr(scheduling, each)) < 0:
            found.add(f"{name}.{each}", "It is negative.")
    if job_messages.enum_name(scheduling, "strategy") != "FLEX_START":
        return
    used = [pool.machine_spec for pool in spec.worker_pool_specs if pool.replica_count]
    if job_messages.seconds_of(scheduling.timeout) > _LONGEST_FLEX_S:
        found.add(f"{name}.timeout", "FLEX_START runs 7 days at most.")
    if any(machine != used[0] for machine in used):
        found.add(f"{name}.strategy", "FLEX_START needs the same machine configuration for all worker pools.")
    if not all(_QUEUED_GPUS.fullmatch(job_messages.enum_name(machine, "accelerator_type")) for machine in used):
        found.add(f"{name}.strategy", "FLEX_START needs L4, A100, H100, H200 or B200 GPUs.")


def _check_reservations(found: Findings, spec: Any, region: Region) -> None:
    """Our choice: the words, and that a reservation goes with STANDARD only."""
    for index, pool in enumerate(spec.worker_pool_specs):
        if not pool.machine_spec.HasField("reservation_affinity"):
            continue
        name = f"custom_job.job_spec.worker_pool_specs[{index}].machine_spec.reservation_affinity"
        affinity = pool.machine_spec.reservation_affinity
        if not found.require(f"{name}.reservation_affinity_type", affinity.reservation_affinity_type):
            continue
        specific = job_messages.enum_name(affinity, "reservation_affinity_type") == "SPECIFIC_RESERVATION"
        if not specific and (affinity.key or affinity.values):
            found.add(f"{name}.key", "Only a SPECIFIC_RESERVATION has a key and values.")
        elif specific and (affinity.key != _RESERVATION_KEY or len(affinity.values) != 1):
            found.add(f"{name}.key", f"A SPECIFIC_RESERVATION needs the key {_RESERVATION_KEY} and one value.")
        elif specific:
            matched = _RESERVATION.fullmatch(affinity.values[0])
            if not matched or matched[1].rpartition("-")[0] != region.name:
                found.add(f"{name}.values", f"{affinity.values[0]!r} is not a reservation in {region.name}.")
        if job_messages.enum_name(spec.scheduling, "strategy") in ("SPOT", "LOW_COST", "FLEX_START"):
            found.add(name, "A reservation goes with the strategy STANDARD.")
