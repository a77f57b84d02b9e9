"""infra/hardware.yaml and MaxText's own accelerator map say the same where both have the row.

Reads the file itself: the hosts' environment has no infra/, and two readers are a better check than one.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from maxtext.utils import accelerator_to_spec_map

from tests.training.cluster import ROOT

MAXTEXT = accelerator_to_spec_map.UserFacingNameToSystemCharacteristics
FAMILIES: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "infra" / "hardware.yaml").read_text())["families"]
TPUS = {
    name: (family, size if isinstance(size, dict) else {"topology": size})
    for family in FAMILIES.values()
    if family["platform"] == "tpu"
    for name, size in family["sizes"].items()
}
# One VM with 8 chips is how Google offers these; MaxText's map knows hosts of 4 chips only.
ONE_HOST_OF_8 = {"v5e-8", "v6e-8"}


def test_maxtext_has_every_tpu_row_and_no_other_size_of_these_families() -> None:
    assert {name for name in MAXTEXT if name.rpartition("-")[0] in FAMILIES} == set(TPUS)


@pytest.mark.parametrize("name", sorted(TPUS.keys() & MAXTEXT.keys()))
def test_topology_devices_and_hosts_are_maxtexts(name: str) -> None:
    family, size = TPUS[name]
    theirs = MAXTEXT[name]
    assert theirs.platform == "tpu"
    assert str(theirs.topology_name).partition(":")[2] == size["topology"]
    chips = math.prod(int(axis) for axis in size["topology"].split("x"))
    assert theirs.devices_per_slice == chips * family["devices_per_chip"]
    chips_per_host = family["machine_types"][size.get("machine_type", family["machine_type"])]["chips"]
    assert theirs.chips_per_host_bounds is not None
    assert chips_per_host == (8 if name in ONE_HOST_OF_8 else math.prod(theirs.chips_per_host_bounds))


def test_an_a3_node_has_the_devices_of_maxtexts_a3() -> None:
    for name in ("a3-mega", "a3-high", "a3-ultra"):
        (machine,) = FAMILIES[name]["machine_types"].values()
        assert machine["chips"] * FAMILIES[name]["devices_per_chip"] == MAXTEXT["a3"].devices_per_slice
    assert FAMILIES["h100"]["chips_per_host"] == MAXTEXT["a3"].devices_per_slice
