"""Where things lie in an artifact store (a directory or a bucket): pure functions of ids and hashes.

objects/<sha256>/<file name>      wheels, uv, Python archives, requirements: everything that hosts install
wheelhouses/<id>/SHA256SUMS       the objects of one wheelhouse, as sha256sum writes and checks them
bundles/<hash>/bundle.tar      training sources, run spec, lock
"""

from __future__ import annotations

SUMS = "SHA256SUMS"
REQUIREMENTS = "requirements.txt"
BUNDLE_ARCHIVE = "bundle.tar"


def object_key(sha256: str, name: str) -> str:
    return f"objects/{sha256}/{name}"


def wheelhouse_key(wheelhouse: str) -> str:
    return f"wheelhouses/{wheelhouse}/{SUMS}"


def bundle_key(bundle: str) -> str:
    return f"bundles/{bundle}/{BUNDLE_ARCHIVE}"


def sums_text(objects: dict[str, str]) -> str:
    """`objects` maps file names to SHA-256."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(objects.items()))


def parse_sums(text: str) -> dict[str, str]:
    """File names to SHA-256, of what `sums_text` wrote."""
    pairs = (line.split("  ", 1) for line in text.splitlines() if line)
    return {name: digest for digest, name in pairs}
