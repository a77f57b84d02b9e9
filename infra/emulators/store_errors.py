"""What the emulated Cloud Storage answers instead of doing what it was asked."""

from __future__ import annotations


class ObjectStoreError(Exception):
    """A status of HTTP, and Google's sentence or one like it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
