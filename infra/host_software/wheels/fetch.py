"""Files of a lock, downloaded side by side into the artifact directory: resumed where they stopped, verified, whole.

Owns HTTP to package indexes. Proxies and certificates are the system's; credentials come from ~/.netrc.
"""

from __future__ import annotations

import fcntl
import ssl
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

import httpx

from infra.artifacts.layout import object_key
from infra.artifacts.store import PARTIAL, sha256_of
from infra.host_software.wheels.selection import LockedFile

_AT_ONCE = 8
_ATTEMPTS = 4
_BLOCK = 1 << 20


class FetchError(RuntimeError):
    """A file cannot be had as the lock says; the message names it."""


class FetchProgress(Protocol):
    """Shows how far the downloads are; called from several threads."""

    def arrived(self, size: int) -> None:
        """Called with the number of bytes that have just arrived."""

    def finished(self, name: str) -> None:
        """Called when a file is complete and verified."""


class Silent:
    """Shows nothing."""

    def arrived(self, size: int) -> None:
        pass

    def finished(self, name: str) -> None:
        pass


def fetch_all(files: Iterable[LockedFile], artifacts: Path, progress: FetchProgress) -> dict[LockedFile, Path]:
    """Fetches every file that is not yet an object below `artifacts`. Raises FetchError."""
    with (
        httpx.Client(verify=ssl.create_default_context(), follow_redirects=True, timeout=60.0) as client,
        ThreadPoolExecutor(_AT_ONCE) as pool,
    ):
        pending = {pool.submit(_fetch, client, file, artifacts, progress): file for file in files}
        try:
            return {pending[done]: done.result() for done in as_completed(pending)}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _fetch(client: httpx.Client, file: LockedFile, artifacts: Path, progress: FetchProgress) -> Path:
    final = artifacts / object_key(file.sha256, file.name)
    if not final.exists():
        partial = artifacts / PARTIAL / f"{file.sha256}-{file.name}"
        partial.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # another build on this machine may be at it
            if final.exists():
                partial.unlink(missing_ok=True)
            else:
                _fetch_alone(client, file, partial, progress)
                final.parent.mkdir(parents=True, exist_ok=True)
                partial.replace(final)
    progress.finished(file.name)
    return final


def _fetch_alone(client: httpx.Client, file: LockedFile, partial: Path, progress: FetchProgress) -> None:
    """Downloads the whole file to `partial` and verifies it."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            _download(client, file, partial, progress)
            break
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            if status < 500 or attempt == _ATTEMPTS:
                raise FetchError(f"{file.name}: the package index answers {status} for {file.url}") from None
        except httpx.HTTPError as error:
            if attempt == _ATTEMPTS:
                host = httpx.URL(file.url).host
                raise FetchError(
                    f"{file.name} cannot be fetched from {host} ({type(error).__name__}: {error}); run this again "
                    f"where it can be reached, what has arrived is kept"
                ) from None
    digest = sha256_of(partial)
    if digest != file.sha256:
        partial.unlink()
        raise FetchError(f"{file.name} has SHA-256 {digest}, the lock says {file.sha256}; refused")


def _download(client: httpx.Client, file: LockedFile, partial: Path, progress: FetchProgress) -> None:
    """Appends to `partial` what it lacks."""
    have = partial.stat().st_size
    headers = {"Range": f"bytes={have}-"} if have else {}
    with client.stream("GET", file.url, headers=headers) as response:
        if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return  # all of it is here already; its hash decides
        response.raise_for_status()
        goes_on = response.status_code == HTTPStatus.PARTIAL_CONTENT
        if goes_on:
            progress.arrived(have)
        with partial.open("ab" if goes_on else "wb") as stream:
            for block in response.iter_bytes(_BLOCK):
                stream.write(block)
                progress.arrived(len(block))
