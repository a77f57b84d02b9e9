"""Hosts as processes: they boot and end as their nodes do, and their services as systemd would have them."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import Cloud, TpuApi
from infra.emulators.tpu_hosts import booted_cloud, network
from infra.emulators.tpu_hosts.accounts import account
from infra.emulators.tpu_hosts.booted_cloud import BootedCloud
from infra.emulators.tpu_hosts.init import LABEL
from infra.emulators.tpu_hosts.system import ABSENT
from infra.labelled_processes import labelled
from infra.paths import ROOT
from tests.emulators.instant import INSTANT
from tests.engine.project import until

PLACE = "projects/p/locations/us-east5-b"
NODE = f"{PLACE}/nodes/n"
SUSPEND_S = 3600
# Says its boot by a guest attribute, and has two services: one that runs, one that fails as often as `codes` says.
# A third has an account that nobody makes.
SCRIPT = """
set -eu
units=${SLIPWAY_UNITS:-/etc/systemd/system}
say() { curl -fsS -X PUT -H 'Metadata-Flavor: Google' --data-binary "$2" \
  "http://$GCE_METADATA_HOST/computeMetadata/v1/instance/guest-attributes/test/$1"; }
id slipway 2>/dev/null || useradd --system slipway
[ -n "${SLIPWAY_UNITS:-}" ] || touch /dev/accel0
cat >"$HOME/devices.sh" <<'END'
DEVICES
END
cat >"$units/lasting.service" <<END
[Service]
ExecStartPre=+/bin/bash "$HOME/devices.sh"
ExecStart=/bin/bash -c 'trap "" TERM; (sleep 1000) & echo up; sleep 1000 & wait; wait'
User=slipway
TimeoutStopSec=200ms
Nice=3
END
cat >"$units/failing.service" <<END
[Service]
ExecStart=/bin/bash -c 'code=\\$(head -n 1 "$HOME/codes"); sed -i 1d "$HOME/codes"; echo "exit \\$code"; exit "\\$code"'
Environment="HOME=$HOME"
Restart=on-failure
RestartSec=10ms
RestartPreventExitStatus=2 3
END
printf '[Service]\\nExecStart=/bin/true\\nUser=nobody-here\\n' >"$units/stranger.service"
printf '%s\\n' 1 1 2 0 >"$HOME/codes"
systemctl daemon-reload
systemctl start lasting.service failing.service stranger.service
systemctl is-active lasting
say name "$(uname -n)"
say found "$(for program in ABSENT bash; do type -p "$program" >/dev/null && echo "$program" || true; done)"
say device "$(stat -c %U /dev/accel0 2>&1 || true)"
say boots "WORD"
"""
SCRIPT = SCRIPT.replace("DEVICES", (ROOT / "infra/vm_hosts/devices.sh").read_text()).replace("ABSENT", " ".join(ABSENT))


@pytest.fixture
def api() -> Iterator[TpuApi]:
    with TpuApi(Cloud(dataclasses.replace(INSTANT, suspend_s=SUSPEND_S))) as api:
        yield api


@pytest.fixture(params=[True, False] if network.permitted() else [False], ids=lambda isolated: f"isolated {isolated}")
def cloud(api: TpuApi, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[BootedCloud]:
    with (
        ObjectStore(tmp_path / "buckets") as store,
        booted_cloud.boot(api, store, tmp_path / "hosts", isolated=request.param) as cloud,
    ):
        yield cloud
    assert not processes(cloud)


def processes(cloud: BootedCloud) -> list[psutil.Process]:
    below = str(cloud.fleet.directory)
    return labelled(LABEL, lambda value: value.startswith(below))


def ask_for_node(api: TpuApi, word: str) -> None:
    metadata = {"startup-script": SCRIPT.replace("WORD", word), "enable-guest-attributes": "TRUE"}
    node = {"acceleratorType": "vcpu-1", "runtimeVersion": "tpu-ubuntu2204-base", "metadata": metadata}
    spec = {"parent": PLACE, "nodeId": "n", "node": node | {"schedulingConfig": {"spot": True}}}
    request = {"tpu": {"nodeSpec": [spec]}, "spot": {}}
    httpx.post(f"{api.url}/v2/{PLACE}/queuedResources?queuedResourceId=q", json=request).raise_for_status()


def said(api: TpuApi, key: str) -> str:
    body = {"queryPath": f"test/{key}"}
    answer = httpx.post(f"{api.url}/v2/{NODE}:getGuestAttributes", json=body).json()
    return answer["guestAttributes"][0]["queryValue"].get("items", [{"value": ""}])[0]["value"]


def journal(disk: Path, unit: str) -> list[str]:
    file = disk / "var" / "log" / "journal" / "system.jsonl"
    entries = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [entry["MESSAGE"] for entry in entries if entry["_SYSTEMD_UNIT"] == unit]


@pytest.mark.long
def test_a_host_lives_as_its_node_does(api: TpuApi, cloud: BootedCloud) -> None:
    ask_for_node(api, "one")
    until(lambda: said(api, "boots") == "one", "the startup script has run to its end")
    (disk,) = cloud.fleet.directory.iterdir()
    own_name = disk.name if cloud.fleet.isolated else platform.node()
    assert said(api, "name") == own_name
    if cloud.fleet.has_roots:
        its_account_owns_what_it_was_given(api, cloud, disk)
    else:
        calls = (disk / "var/log/calls").read_text()
        assert calls.startswith("useradd --system slipway\n"), "no account is made on this machine"
        assert "User=slipway is no account of this machine" in "\n".join(journal(disk, "lasting.service"))

    exits = until(
        lambda: (
            journal(disk, "failing.service")[-1:] == ["failing.service: Main process exited, status=2"]
            and journal(disk, "failing.service")
        ),
        "the service has ended for good",
    )
    assert [line for line in exits if line.startswith("exit ")] == ["exit 1", "exit 1", "exit 2"]
    lasting = journal(disk, "lasting.service")
    assert lasting[-1] == "up"
    assert "lasting.service: Nice= is not honoured by this emulated host" in "\n".join(lasting)

    metadata = {"startup-script": SCRIPT.replace("WORD", "two"), "enable-guest-attributes": "TRUE"}
    httpx.patch(f"{api.url}/v2/{NODE}?updateMask=metadata", json={"metadata": metadata}).raise_for_status()
    httpx.post(f"{api.url}/_/reboot", json={"node": NODE}).raise_for_status()
    until(lambda: said(api, "boots") == "two", "it has booted with what its metadata says now")
    assert list(cloud.fleet.directory.iterdir()) == [disk], "on the same disk"
    assert "Stopped lasting.service." in journal(disk, "lasting.service"), "after an orderly end"

    httpx.post(f"{api.url}/_/maintenance", json={"node": NODE, "in_s": 0, "ongoing": True}).raise_for_status()
    metadata_of = cloud.fleet.host(disk.name).metadata
    until(
        lambda: metadata_of.values["instance/maintenance-event"].startswith("TERMINATE"), "its maintenance is announced"
    )

    broken = {"node": NODE, "state": "REPAIRING", "health": "TIMEOUT"}
    httpx.post(f"{api.url}/_/node", json=broken).raise_for_status()
    until(lambda: not processes(cloud), "the machine below it is broken")
    assert journal(disk, "lasting.service").count("Stopped lasting.service.") == 1, "it has lost power"
    httpx.post(f"{api.url}/_/node", json={"node": NODE, "state": "READY"}).raise_for_status()
    until(lambda: said(api, "boots") == "two", "it has booted again, on the disk that it had")

    cut = httpx.post(f"{api.url}/_/network", json={"node": NODE, "worker": 0, "up": False})
    assert cut.status_code == (200 if cloud.fleet.isolated else 400)
    httpx.post(f"{api.url}/_/preempt", json={"name": NODE}).raise_for_status()
    until(lambda: not processes(cloud), "it has ended")
    assert list(cloud.fleet.directory.iterdir()) == [disk], "its node is not deleted yet"
    api.advance(SUSPEND_S)
    until(lambda: not list(cloud.fleet.directory.iterdir()), "nothing is left of it")


def its_account_owns_what_it_was_given(api: TpuApi, cloud: BootedCloud, disk: Path) -> None:
    """On a root of its own, whose programs are the image's: accounts are those of its own passwd."""
    assert said(api, "found") == "bash", "no Python but what the wheelhouse brings"
    assert said(api, "device") == "slipway"
    made = account(disk, "slipway")
    assert made and not (disk / "var/log/calls").exists()
    uids = {each.uids().real for each in processes(cloud) if "sleep" in each.cmdline()}
    assert uids == {made.uid} != {os.getuid()}
    until(
        lambda: "there is no account nobody-here" in "\n".join(journal(disk, "stranger.service")),
        "as systemd refuses it",
    )


@pytest.mark.long
def test_only_emulated_accelerators_boot(api: TpuApi, cloud: BootedCloud) -> None:
    ask_for_node(api, "one")
    node = {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"}
    httpx.post(f"{api.url}/v2/{PLACE}/nodes?nodeId=pretended", json=node).raise_for_status()
    until(lambda: said(api, "boots"), "the other host has booted")
    nodes = {node["id"]: node for node in httpx.get(f"{api.url}/_/state").json()["nodes"]}
    assert nodes["pretended"]["hosts_ready"] == 1, "it is pretended, as ever"
    assert nodes["n"]["hosts_ready"] == 0, "it has booted, and says nothing of training"
    assert len(list(cloud.fleet.directory.iterdir())) == 1
