"""What artifact stores that are buckets have alike, whoever's they are: names below a prefix, and how patient they are.

Owns no request: gcs.py and s3.py have those, each with the sentences for what its service answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from infra.artifacts.store import Entry, NoObjectError, check_key

RENEW_AFTER = timedelta(hours=1)  # far below the age that gc spares
REPLACE_AGAIN = 4  # times that somebody else, or a try of ours whose answer was lost, was faster


class BucketStore(ABC):
    """`<scheme>://bucket[/prefix]`."""

    def __init__(self, scheme: str, bucket: str, prefix: str) -> None:
        self.uri = f"{scheme}://{bucket}/{prefix}".rstrip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._bucket_name = bucket
        self._seen_bucket = False

    def has(self, key: str) -> bool:
        return self._find(key) is not None

    def keys(self, prefix: str = "") -> Iterator[str]:
        return (entry.key for entry in self.entries(prefix))

    @abstractmethod
    def entries(self, prefix: str = "") -> Iterator[Entry]: ...

    @abstractmethod
    def _find(self, key: str) -> Any:
        """What the service says of the object, or None."""

    def _get(self, key: str) -> Any:
        found = self._find(key)
        if found is None:
            raise NoObjectError(f"there is no {key} in {self.uri}")
        return found

    def _name(self, key: str) -> str:
        return self._prefix + check_key(key)
