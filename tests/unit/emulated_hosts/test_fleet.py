"""Hosts as processes: they boot and end as their nodes do, and their services as systemd would have them."""

from __future__ import annotations

import dataclasses
import json
import platform
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import Cloud, TpuApi
from infra.emulators.tpu_hosts import booted_cloud, network
from infra.emulators.tpu_hosts.booted_cloud import BootedCloud
from infra.emulators.tpu_hosts.init import LABEL
from infra.labelled_processes import labelled
from tests.emulators.instant import INSTANT
from tests.engine.project import until

PLACE = "projects/p/locations/us-east5-b"
NODE = f"{PLACE}/nodes/n"
SUSPEND_S = 3600
# Says its boot by a guest attribute, and has two services: one that runs, one that fails as often as `codes` says.
SCRIPT = """
set -eu
units=$SLIPWAY_UNITS
say() { curl -fsS -X PUT -H 'Metadata-Flavor: Google' --data-binary "$2" \
  "http://$GCE_METADATA_HOST/computeMetadata/v1/instance/guest-attributes/test/$1"; }
id slipway-trainer 2>/dev/null || useradd slipway-trainer
cat >"$units/lasting.service" <<END
[Service]
ExecStart=/bin/bash -c 'trap "" TERM; (sleep 1000) & echo up; sleep 1000 & wait; wait'
User=nobody-here
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
printf '%s\\n' 1 1 2 0 >"$HOME/codes"
systemctl daemon-reload
systemctl start lasting.service failing.service
systemctl is-active lasting
say name "$(uname -n)"
say boots "WORD"
"""


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


def processes(cloud: BootedCloud) -> list[int]:
    below = str(cloud.fleet.directory)
    return [each.pid for each in labelled(LABEL, lambda value: value.startswith(below))]


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
    assert (disk / "var/log/calls").read_text() == "useradd slipway-trainer\n", "no account is made on this machine"

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
    assert "User=nobody-here is no account of this machine" in "\n".join(lasting)

    metadata = {"startup-script": SCRIPT.replace("WORD", "two"), "enable-guest-attributes": "TRUE"}
    httpx.patch(f"{api.url}/v2/{NODE}?updateMask=metadata", json={"metadata": metadata}).raise_for_status()
    httpx.post(f"{api.url}/_/reboot", json={"node": NODE}).raise_for_status()
    until(lambda: said(api, "boots") == "two", "it has booted with what its metadata says now")
    assert list(cloud.fleet.directory.iterdir()) == [disk], "on the same disk"
    assert "Stopped lasting.service." in journal(disk, "lasting.service"), "after an orderly end"

    cut = httpx.post(f"{api.url}/_/network", json={"node": NODE, "worker": 0, "up": False})
    assert cut.status_code == (200 if cloud.fleet.isolated else 400)
    httpx.post(f"{api.url}/_/preempt", json={"name": NODE}).raise_for_status()
    until(lambda: not processes(cloud), "it has ended")
    assert list(cloud.fleet.directory.iterdir()) == [disk], "its node is not deleted yet"
    api.advance(SUSPEND_S)
    until(lambda: not list(cloud.fleet.directory.iterdir()), "nothing is left of it")


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
