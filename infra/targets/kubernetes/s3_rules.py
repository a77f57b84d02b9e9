"""What of a stack's files may lie in S3, and what its pods are told of it. Pure.

Owns the rules between the keys that say so, and why checkpoints may not. Refuses to own how S3 is asked
(training/s3_objects.py by pods, infra/artifacts/s3.py by this machine).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infra.targets.places import S3_ENDPOINT, in_s3

ROLE_ANNOTATION = "eks.amazonaws.com/role-arn"
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_REGION = "us-east-1"  # which servers other than Amazon's take for theirs
# Orbax 0.12.8 makes a path of each location but gs:// (orbax/checkpoint/_src/serialization/tensorstore_utils.py,
# _use_gcs_driver and _normalize_path): tests/training/test_s3_checkpoints.py notices the release that does not.
_NO_CHECKPOINTS = (
    "Orbax, which writes and reads checkpoints, takes a directory or gs:// and refuses s3:// as a path that is not "
    "absolute"
)


@dataclass(frozen=True)
class S3Terms:
    """What a stack says of S3. files: the places of wheels and text, by key. checkpoints: what would be written or read
    by Orbax, by key. role: of the service account. secrets: the stack's secret_variables.
    """

    files: Mapping[str, str]
    checkpoints: Mapping[str, str]
    region: str
    endpoint: str
    role: str
    secrets: Mapping[str, str]

    @property
    def is_used(self) -> bool:
        return any(map(in_s3, self.files.values()))

    @property
    def environment(self) -> dict[str, str]:
        """Of pods, spelled as any of Amazon's clients reads it. EKS would add its own region where none is said."""
        if not self.is_used:
            return {}
        return {"AWS_REGION": self.region or _REGION} | ({S3_ENDPOINT: self.endpoint} if self.endpoint else {})

    @property
    def account(self) -> str:
        """As whom pods ask S3; a clause."""
        if _KEYS[0] in self.secrets:
            return f"with the keys of secret {self.secrets[_KEYS[0]].partition('/')[0]}"
        return f"as {self.role}" if self.role else "as what EKS Pod Identity gives their service account"


def problem(terms: S3Terms) -> str | None:
    """The first rule that the stack breaks, in a sentence."""
    for key, value in terms.checkpoints.items():
        if in_s3(value):
            instead = (
                "leave runs out, and give shared_claim and shared_path of a volume (EFS, FSx), or write "
                "`slipway:runs: gs://<bucket>`; artifacts and data may stay in S3"
                if key == "runs"
                else "name a directory of the volume, or gs://"
            )
            return f"{key} is '{value}', but {_NO_CHECKPOINTS}: {instead}"
    if not terms.is_used:
        for key, value in (("s3_region", terms.region), ("s3_endpoint", terms.endpoint)):
            if value:
                return f"{key} is '{value}', but neither artifacts nor data lies in s3://; leave it out"
        return None
    if not (terms.region or terms.endpoint):
        return (
            "s3_region is missing: pods sign what they ask of s3:// for the region of the bucket; write "
            "`slipway:s3_region: eu-central-1`, or s3_endpoint for another server than Amazon's"
        )
    if len(present := [key for key in _KEYS if key in terms.secrets]) == 1:
        return f"secret_variables has {present[0]} alone; S3 wants both, {' and '.join(_KEYS)}"
    return None


def other_server(terms: S3Terms, environ: Mapping[str, str]) -> str | None:
    """Why this machine would push to another server than pods read, and what to do; None where it would not."""
    here = environ.get(S3_ENDPOINT, "").rstrip("/")
    if not terms.is_used or here == terms.endpoint:
        return None
    if not terms.endpoint:
        return (
            f"{S3_ENDPOINT} is {here} on this machine, but pods of this stack would ask Amazon; run "
            f"`unset {S3_ENDPOINT}`, or write `slipway:s3_endpoint: {here}`"
        )
    return (
        f"s3_endpoint is {terms.endpoint}, but this machine would ask {here or 'Amazon'}; run "
        f"`export {S3_ENDPOINT}={terms.endpoint}`"
    )
