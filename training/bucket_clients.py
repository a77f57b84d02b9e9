"""How long a training's clients of a bucket (gs://) ask on, so that what the bucket answers is told by its name.

Three clients speak to it: etils through gcsfs, MaxText and Orbax through google-cloud-storage, TensorStore through its
own. Left alone, TensorStore tries for 16 minutes and waits for an answer for ever, so that a standstill would end the
training without a word of the bucket. gcsfs would also remember listings, and miss what another thread has written: of
a checkpoint that was just saved it said that its directory does not exist. Owns these limits. Refuses to own what the
clients' errors mean (training/bucket_errors.py), and credentials, which each client finds as anywhere. Imports no
client before it is used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """`retries` are TensorStore's, after 1, 2, 4, ... seconds and up to one more; `answer_s`: for the next byte."""

    retries: int
    answer_s: int


def patience(standstill_s: int) -> Patience:
    """All tries of a request and the waits between them end within the least window of a standstill."""
    retries = max(count for count in range(1, 10) if count == 1 or 2**count - 1 + count <= standstill_s / 3)
    return Patience(retries, max(1, standstill_s // 2 // (retries + 1)))


def environment(standstill_s: int) -> dict[str, str]:
    """Variables of the process that trains."""
    return {
        "TENSORSTORE_CURL_LOW_SPEED_LIMIT_BYTES": "1",
        "TENSORSTORE_CURL_LOW_SPEED_TIME_SECONDS": str(patience(standstill_s).answer_s),
        "FSSPEC_GCS": json.dumps(
            {
                "requests_timeout": standstill_s // 2,  # gcsfs does not try again after it
                "use_listings_cache": False,  # one that begins before a write and ends after it would hide it for good
            }
        ),
        # Only through the JSON API, as the other two: else gcsfs asks by gRPC of which kind the bucket is.
        "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
    }


def limit_retries(standstill_s: int) -> None:
    """Of TensorStore, which takes this from its context alone; Orbax makes each context from one of these two."""
    from orbax.checkpoint._src.serialization import tensorstore_utils

    retries = {"gcs_request_retries": {"max_retries": patience(standstill_s).retries}}
    tensorstore_utils._BASE_TS_CONTEXT |= retries  # pyright: ignore[reportPrivateUsage]
    tensorstore_utils._DEFAULT_OCDBT_TS_CONTEXT |= retries  # pyright: ignore[reportPrivateUsage]
