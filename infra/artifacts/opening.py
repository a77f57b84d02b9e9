"""The artifact store of an address: a directory or a bucket.

A bucket's module is imported when one is opened, because Google's client costs half a second at start-up.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from infra.artifacts.store import PATIENCE_S, LocalStore, Store, StoreError, check_key


def open_store(uri: str | Path, patience_s: float = PATIENCE_S) -> Store:
    """A directory (made on the first put), `gs://bucket[/prefix]` or `s3://...`; nothing is asked of a bucket yet."""
    text = str(uri)
    scheme = text.partition("://")[0] if "://" in text else ""
    if not scheme and text:
        return LocalStore(Path(text))
    parts = urlsplit(text) if scheme in ("file", "gs", "s3") else None
    if parts is not None and scheme == "file" and parts.path and parts.netloc in ("", "localhost"):
        return LocalStore(Path(unquote(parts.path)))
    if parts is not None and scheme != "file" and parts.netloc and not parts.query and not parts.fragment:
        prefix = parts.path.strip("/")
        if prefix:
            check_key(prefix)
        if scheme == "s3":
            from infra.artifacts.s3 import S3Store  # here, because Amazon's client costs as much as Google's

            return S3Store(parts.netloc, prefix, patience_s)
        from infra.artifacts.gcs import GcsStore  # here, because importing Google's client costs half a second

        return GcsStore(parts.netloc, prefix, patience_s)
    raise StoreError(
        f"'{text}' is not an artifact store; allowed are a directory, file:///directory, gs://bucket[/prefix] and "
        f"s3://bucket[/prefix]"
    )


def bucket_regions(uri: str) -> tuple[str, ...]:
    """Where the bucket of a gs:// URL lies, by one call. Raises StoreError, as NotPermittedError for a 403."""
    from infra.artifacts.gcs import GcsStore

    return GcsStore(urlsplit(uri).netloc, "").regions()
