"""What the account of hosts may do with its foundation's buckets, by the kind of bucket, and with the project.

The foundation grants it (infra/targets/foundation/components/identity.py), and buckets of the emulated cloud that no
foundation has made have it granted all the same (infra/emulators/emulated_cloud.py).
"""

from __future__ import annotations

# Cloud Storage has no narrower role that writes: objectUser reads, writes and deletes objects, and grants nothing.
BUCKET_ROLES = {
    "checkpoints": "roles/storage.objectUser",
    "data": "roles/storage.objectViewer",
    "artifacts": "roles/storage.objectViewer",
}
# Orbax asks for the bucket itself before it reads or writes a checkpoint, which no role on objects allows (403 in
# keras-team/kinetic pull request 251). Data may hold checkpoints to start from.
ORBAX_BUCKETS = ("checkpoints", "data")
SEES_BUCKET = "roles/storage.legacyBucketReader"
# Logs and metrics are the project's. These roles write them and read nothing.
PROJECT_ROLES = {"logs": "roles/logging.logWriter", "metrics": "roles/monitoring.metricWriter"}


def bucket_roles(kind: str) -> frozenset[str]:
    """All that hosts have on a bucket of that kind."""
    return frozenset((BUCKET_ROLES[kind], *((SEES_BUCKET,) if kind in ORBAX_BUCKETS else ())))
