"""What a stack of target `tpu-vm` asks for: decided from settings and tables, before anything is asked or bought.

Needs no account and no network: names are a function of project and region, so it works before there is a foundation.
Refuses to own how it is declared (infra/targets/tpu_vm/declare.py). Not run on real hardware.
"""

from __future__ import annotations

from infra import durations
from infra.google_cloud.api import SCOPE
from infra.host_secrets import host_secret
from infra.host_software.derive import HostSoftware
from infra.host_software.wheels.mount_program import mount_program
from infra.paths import TRAINING
from infra.runs.run_data import stored_below
from infra.targets.places import Places
from infra.targets.tpu_vm.provider.tpu_inputs import STARTUP_SCRIPT, QueuedResourceInputs
from infra.targets.tpu_vm.settings import DataOnHosts, TpuVmSettings
from infra.tiers import Tier
from infra.vm_hosts.startup_script import DataMount, HostScript, startup_script

DATA_DISK_LABEL = "slipway-data"  # of a file system, as mkfs writes it


def requested(settings: TpuVmSettings, software: HostSoftware) -> QueuedResourceInputs:
    """What is asked for, with the script that its hosts start with."""
    script = startup_script(host_script(settings, software.bundle), (TRAINING / "bootstrap.sh").read_text())
    return request_inputs(settings, script)


def host_script(settings: TpuVmSettings, bundle: str) -> HostScript:
    row = settings.row
    return HostScript(
        stack=settings.stack,
        slices=settings.slices,
        hosts_per_slice=row.hosts,
        chips_per_host=row.chips_per_host,
        artifacts=settings.places.artifacts_on_hosts,
        bundle=bundle,
        data_disk=DATA_DISK_LABEL if settings.data_on_hosts is DataOnHosts.DISK else "",
        data_mount=_mounted(settings),
        secrets=tuple(host_secret(name, settings.names.secret_path(name)) for name in settings.host_secrets),
    )


def _mounted(settings: TpuVmSettings) -> DataMount | None:
    """What holds the text, and not the text itself: other text is no other script, so no other request."""
    return DataMount(stored_below(settings), mount_program().sha256) if settings.hosts_mount_data else None


def request_inputs(settings: TpuVmSettings, script: str) -> QueuedResourceInputs:
    row, names = settings.row, settings.names
    until, after = _moment(settings.valid_until), _moment(settings.valid_after)
    return QueuedResourceInputs(
        project=settings.project,
        zones=list(settings.zones),
        name=settings.request,
        nodes=settings.slices,
        accelerator_type=str(row.accelerator_type),
        runtime_version=settings.runtime_version or str(row.runtime_version),
        tier=str(settings.tier),
        networks=[
            {
                "network": settings.network or names.network_path,
                "subnetwork": settings.subnet or names.subnet_path,
                "enable_external_ips": False,
            }
        ],
        service_account=settings.service_account or names.account_email,
        scopes=[SCOPE],  # what the account may do is said by its roles
        labels=settings.all_labels,
        tags=list(settings.tags),
        metadata={STARTUP_SCRIPT: script, "enable-guest-attributes": "TRUE"},
        data_disks=[{"source_disk": disk.source_disk, "mode": disk.mode} for disk in settings.data_disks],
        description=f"slipway stack {settings.stack}",
        reservation=settings.reservation or "",
        min_duration_s=settings.min_duration or 0,
        max_run_duration_s=(settings.max_runtime or 0) if settings.tier is Tier.FLEX_START else 0,
        valid_until_s=until[0],
        valid_until=until[1],
        valid_after_s=after[0],
        valid_after=after[1],
        take_over=settings.take_over or "",
        wanted_in=_said_in(settings.places),
    )


def _said_in(places: Places) -> str:
    """The store that tells hosts their bundle; none where they read a mirror of it, which may be late."""
    return places.artifacts if places.artifacts == places.artifacts_on_hosts else ""


def _moment(text: str | None) -> tuple[int, str]:
    """A length of time in seconds or a point in time, the other empty."""
    if text is None:
        return 0, ""
    return (0, text) if "T" in text else (durations.seconds(text), "")
