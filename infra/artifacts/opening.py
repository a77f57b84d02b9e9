"""The artifact store of an address: a directory or a bucket.

A bucket's module is imported when one is opened, because Google's client costs half a second at start-up.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from infra.artifacts.store import PATIENCE_S, LocalStore, Store, StoreError, check_key


def open_store(uri: str | Path, patience_s: float = PATIENCE_S) -> Store:
    """A directory (made on the first put) or `gs://bucket[/prefix]`; nothing is asked of a bucket yet."""
    text = str(uri)
    scheme = text.partition("://")[0] if "://" in text else ""
    if not scheme and text:
        return LocalStore(Path(text))
    parts = urlsplit(text) if scheme in ("file", "gs") else None
    if parts is not None and scheme == "file" and parts.path and parts.netloc in ("", "localhost"):
        return LocalStore(Path(unquote(parts.path)))
    if parts is not None and scheme == "gs" and parts.netloc and not parts.query and not parts.fragment:
        from infra.artifacts.gcs import GcsStore  # here, because importing Google's client costs half a second

        prefix = parts.path.strip("/")
        if prefix:
            check_key(prefix)
        return GcsStore(parts.netloc, prefix, patience_s)
    raise StoreError(
        f"'{text}' is not an artifact store; allowed are a directory, file:///directory and gs://bucket[/prefix]"
    )


def bucket_regions(uri: str) -> tuple[str, ...]:
    """Where the bucket of a gs:// URL lies, by one call. Raises StoreError, as NotPermittedError for a 403."""
    from infra.artifacts.gcs import GcsStore

    return GcsStore(urlsplit(uri).netloc, "").regions()
