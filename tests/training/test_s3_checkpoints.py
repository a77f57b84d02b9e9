"""Why checkpoints do not go to s3://, at the source: a release of Orbax that can do it makes these fail.

infra/targets/kubernetes/s3_rules.py says so of a stack that asks for it.
"""

from __future__ import annotations

import pytest
import tensorstore as ts
from etils import epath
from orbax.checkpoint._src.path import atomicity, atomicity_defaults
from orbax.checkpoint._src.serialization import tensorstore_utils

STEP = "s3://bucket/runs/run/checkpoints/0"


@pytest.mark.parametrize("use_ocdbt", [True, False])
def test_orbax_makes_a_path_of_this_machine_of_an_s3_url(use_ocdbt: bool) -> None:
    """It knows a client for gs:// alone."""
    google = tensorstore_utils.build_kvstore_tspec(STEP.replace("s3", "gs"), use_ocdbt=False)
    assert (google["driver"], google["bucket"]) == ("gcs", "bucket")
    if use_ocdbt:
        with pytest.raises(ValueError, match=r"^Checkpoint path should be absolute. Got s3:/bucket/runs/run/"):
            tensorstore_utils.build_kvstore_tspec(STEP, use_ocdbt=True)
    else:
        assert tensorstore_utils.build_kvstore_tspec(STEP, use_ocdbt=False)["driver"] == "file"


def test_orbax_would_publish_a_step_by_a_rename_which_s3_has_not() -> None:
    """On gs:// a last object says that a step is whole."""
    default = atomicity_defaults.get_default_temporary_path_class
    assert default(epath.Path(STEP)) is atomicity.AtomicRenameTemporaryPath
    assert default(epath.Path(STEP.replace("s3", "gs"))) is atomicity.CommitFileTemporaryPath


def test_what_orbax_stands_on_could() -> None:
    spec = ts.KvStore.Spec({"driver": "s3", "bucket": "bucket", "path": "runs/", "endpoint": "http://127.0.0.1:9"})
    assert spec.to_json()["driver"] == "s3"
