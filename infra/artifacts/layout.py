"""Where things lie in an artifact store (a directory or a bucket): pure functions of ids and hashes.

objects/<sha256>/<file name>      wheels, uv, Python archives: everything that hosts install
wheelhouses/<id>/SHA256SUMS       the objects of one wheelhouse, as sha256sum writes and checks them
bundles/<hash>/bundle.tar         training sources, run spec, lock

What is said of them lies beside them: who uses what (uses.py), what hosts shall run (wanted.py).
"""

from __future__ import annotations

import re

from infra.artifacts.store import StoreError

SUMS = "SHA256SUMS"
BUNDLE_ARCHIVE = "bundle.tar"
_SUM = re.compile(r"([0-9a-f]{64})  ([^/]+)")


def object_key(sha256: str, name: str) -> str:
    return f"objects/{sha256}/{name}"


def wheelhouse_key(wheelhouse: str) -> str:
    return f"wheelhouses/{wheelhouse}/{SUMS}"


def bundle_key(bundle: str) -> str:
    return f"bundles/{bundle}/{BUNDLE_ARCHIVE}"


def sums_text(objects: dict[str, str]) -> str:
    """`objects` maps file names to SHA-256."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(objects.items()))


def objects_of(wheelhouse: str, sums: str) -> frozenset[str]:
    """The keys that a wheelhouse's SHA256SUMS names; sums: its text. Raises StoreError for a line that is no sum."""
    keys: set[str] = set()
    for number, line in enumerate(sums.splitlines(), start=1):
        match = _SUM.fullmatch(line)
        if match is None:
            raise StoreError(
                f"line {number} of {wheelhouse_key(wheelhouse)} is {line!r}, not '<sha256>  <file name>';"
                f" put it right or delete that wheelhouse, then run it again"
            )
        keys.add(object_key(match[1], match[2]))
    return frozenset(keys)
