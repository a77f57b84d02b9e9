"""What a stack of target `vertex` asks for: decided from settings and tables, before anything is asked or bought.

Needs no account and no network: names are a function of project and region, so it works before there is a foundation.
Refuses to own how it is declared (declare.py) and what the API's JSON is (provider/vertex_inputs.py). Not run on real
hardware.
"""

from __future__ import annotations

import re

from infra import host_roles
from infra.host_secrets import host_secret
from infra.host_software.derive import HostSoftware
from infra.paths import TRAINING
from infra.pods import gpu_mesh
from infra.targets.host_variables import HostVariable
from infra.targets.places import bucket_of, in_bucket
from infra.targets.vertex.provider.vertex_inputs import VertexJobInputs
from infra.targets.vertex.settings import VertexSettings
from training.run_spec import RunSpec

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_CPU_MACHINE = "n1-standard-4"  # of hosts without accelerators, which only an emulator has
# A container has a home of its own; directories below it are there as long as the machine.
_PRELUDE = """\
export SLIPWAY_ROOT="${SLIPWAY_ROOT:-${HOME:-/root}/slipway/root}"
export SLIPWAY_HOST_DIR="${SLIPWAY_HOST_DIR:-${HOME:-/root}/slipway/host}"
"""
_WHEN_UP = "<by its hash>"


def requested(settings: VertexSettings, software: HostSoftware) -> VertexJobInputs:
    """What is asked for, with the script that its containers start with."""
    script = _PRELUDE + (TRAINING / "bootstrap.sh").read_text()
    return job_inputs(settings, software.bundle, script)


def job_inputs(settings: VertexSettings, bundle: str, script: str) -> VertexJobInputs:
    row = settings.row
    return VertexJobInputs(
        project=settings.project,
        regions=list(settings.regions_in_order),
        display_name=settings.job,
        replicas=settings.replicas,
        machine_type=row.machine.name if row.machine else _CPU_MACHINE,
        accelerator_type=row.vertex_accelerator or "",
        accelerator_count=row.chips_per_host if row.vertex_accelerator else 0,
        boot_disk_gb=settings.boot_disk_gb,
        image=settings.mirrored(settings.image),
        script=script,
        environment={each.name: each.value for each in variables(settings, bundle)},
        service_account=settings.account,
        tier=str(settings.tier),
        labels=settings.all_labels,
        reservation=settings.reservation or "",
        timeout_s=settings.timeout_s,
        max_wait_s=-1 if settings.max_wait_duration is None else settings.max_wait_duration,
        output=settings.places.runs if settings.tensorboard else "",
        tensorboard=settings.tensorboard or "",
        peered_network=settings.peered_network or "",
        web_access=settings.web_access,
        wait=settings.wait,
        wait_deadline_s=settings.wait_deadline,
    )


def variables(settings: VertexSettings, bundle: str = _WHEN_UP) -> tuple[HostVariable, ...]:
    """Of each container. Its rank, the coordinator and how many there are, the service says itself (training/hosts.py,
    row "vertex"): CLUSTER_SPEC, RANK, MASTER_ADDR, MASTER_PORT.
    """
    own = {
        "SLIPWAY_STACK": settings.stack,
        "SLIPWAY_ARTIFACTS": settings.places.artifacts_on_hosts,
        "SLIPWAY_BUNDLE": bundle,
        "SLIPWAY_START_AGAIN": "1",  # a worker that the service starts again alone would wait for the others
    }
    secrets = [host_secret(name, settings.names.secret_path(name)).line for name in settings.host_secrets]
    own |= {"SLIPWAY_SECRETS": "\n".join(secrets)} if secrets else {}
    return (*(HostVariable(name, value) for name, value in own.items()), *settings.gpu_variables)


def notices(settings: VertexSettings, spec: RunSpec | None) -> tuple[str, ...]:
    """What a reviewer should know of it.

    Raises SettingsError for a mesh that carries over the network what belongs inside a machine.
    """
    if spec:
        gpu_mesh.check(settings, spec)
    return (_job(settings), *settings.network_notices, *_image(settings), *_account(settings), *_places(settings))


def _job(settings: VertexSettings) -> str:
    row, workers = settings.row, settings.replicas - 1
    machine = row.machine.name if row.machine else _CPU_MACHINE
    pools = f"1 {machine} as master" + (
        f" and {workers} as {'worker' if workers == 1 else 'workers'}" if workers else ""
    )
    return f"custom job {settings.job}: {pools}, as {settings.account}"


def _image(settings: VertexSettings) -> tuple[str, ...]:
    """No line for an image by digest."""
    if _DIGEST.search(settings.image):
        return ()
    return (
        f"image {settings.image} is named by a tag, which may lead elsewhere tomorrow: a later start of this run may "
        f"begin in other files than the first; <image>@sha256:<digest> is the same each time",
    )


def roles(settings: VertexSettings) -> dict[str, tuple[str, ...]]:
    """What the account of its containers needs, by bucket."""
    places = settings.places
    text = settings.data if in_bucket(settings.data) else places.data
    held = {"artifacts": places.artifacts_on_hosts, "checkpoints": places.runs}
    held |= {"data": text} if settings.sources else {}
    needed: dict[str, tuple[str, ...]] = {}
    for kind, place in held.items():
        if in_bucket(place):
            bucket = bucket_of(place)
            needed[bucket] = tuple(dict.fromkeys((*needed.get(bucket, ()), *sorted(host_roles.bucket_roles(kind)))))
    return needed


def _account(settings: VertexSettings) -> tuple[str, ...]:
    """The foundation's account has its roles; one that the stack names may have none."""
    if not settings.service_account:
        return ()
    each = "; ".join(f"{', '.join(names)} on gs://{bucket}" for bucket, names in roles(settings).items())
    return (f"{settings.service_account} needs {each}; `slipway doctor {settings.stack}` asks whether it has them",)


def _places(settings: VertexSettings) -> tuple[str, ...]:
    first, *others = settings.regions_in_order
    if not others:
        return ()
    return (
        f"buckets are in {first}: a job in {' or '.join(others)} reads and writes them across regions, slowly and at a "
        f"price per byte",
    )
