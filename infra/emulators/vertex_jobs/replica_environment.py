"""The variables that Vertex AI sets in a job's containers: who a replica is, who the others are, where output goes.

CLUSTER_SPEC and TF_CONFIG are written from Google's page on distributed training (TF_CONFIG of several replicas only),
AIP_* from the client's docstrings, CLOUD_ML_PROJECT_ID (a number) and the rest from code that reads them. Our choice:
MASTER_ADDR and its kin also for a single replica, `job` with REST's spelling, and that they win over a container's own
variables of these names. Addresses are this machine's, so each replica has a port of its own instead of 2222.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from infra.emulators.vertex_jobs import job_messages
from infra.emulators.vertex_jobs.job_records import EmulatedJob, Replica

_TF_NAMES = ("chief", "worker", "ps")  # of pools; evaluators are not part of the cluster


def service_variables(job: EmulatedJob, replica: Replica, addresses: Mapping[str, str]) -> dict[str, str]:
    """Of one replica. addresses: `host:port` of every replica by its name."""
    spec = job_messages.plain(job.message.job_spec)
    pools: dict[str, list[str]] = {}
    for each in job.replicas:
        pools.setdefault(f"workerpool{each.pool}", []).append(addresses[each.name])
    task = {"type": f"workerpool{replica.pool}", "index": replica.index}
    host, _, port = addresses[job.replicas[0].name].rpartition(":")
    variables = {
        "CLUSTER_SPEC": json.dumps({"cluster": pools, "environment": "cloud", "task": task, "job": spec}),
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "RANK": str(job.replicas.index(replica)),
        "WORLD_SIZE": str(len(job.replicas)),
        "CLOUD_ML_JOB_ID": job.id,
        "CLOUD_ML_PROJECT_ID": job.region.project,
        "CLOUD_ML_REGION": job.region.name,
        "HOSTNAME": hostname(job, replica),
    }
    if len(job.replicas) > 1:
        variables["TF_CONFIG"] = json.dumps(_tf_config(job, replica, addresses, spec))
    return variables | _output(job)


def hostname(job: EmulatedJob, replica: Replica) -> str:
    """As replicas were seen to be called; it resolves nowhere here."""
    digest = hashlib.sha256(job.name.encode()).hexdigest()[:10]
    return f"cmle-training-workerpool{replica.pool}-{digest}-{replica.index}"


def _tf_config(job: EmulatedJob, replica: Replica, addresses: Mapping[str, str], spec: Any) -> dict[str, Any]:
    cluster: dict[str, list[str]] = {}
    for each in job.replicas:
        if each.pool < len(_TF_NAMES):
            cluster.setdefault(_TF_NAMES[each.pool], []).append(addresses[each.name])
    kind = (*_TF_NAMES, "evaluator")[replica.pool]
    task = {"type": kind, "index": replica.index, "cloud": hostname(job, replica).split("-")[-2]}
    return {"cluster": cluster, "environment": "cloud", "job": spec, "task": task}


def _output(job: EmulatedJob) -> dict[str, str]:
    spec = job.message.job_spec
    variables = dict[str, str]()
    if prefix := spec.base_output_directory.output_uri_prefix.rstrip("/"):
        folders = {"MODEL_DIR": "model", "CHECKPOINT_DIR": "checkpoints", "TENSORBOARD_LOG_DIR": "logs"}
        variables |= {f"AIP_{name}": f"{prefix}/{folder}/" for name, folder in folders.items()}
    if spec.tensorboard:
        variables["AIP_TENSORBOARD_RESOURCE_NAME"] = spec.tensorboard
    return variables
