"""Where a stack's files lie, each a directory or the URL of a place in a bucket. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

GOOGLE, S3 = "gs://", "s3://"
S3_ENDPOINT = "AWS_ENDPOINT_URL_S3"  # a variable: another server than Amazon's, for this machine and for pods


@dataclass(frozen=True)
class Places:
    """artifacts: where `up` writes wheels and bundles. artifacts_on_hosts: where hosts read them, which may be another
    way to the same files. runs: holds a directory for each run. data: holds prepared text, each below its content;
    empty where hosts cannot read any. data_on_hosts: likewise, where hosts have it without copying it from there;
    data_is_mounted: because they mount what holds it. region: where the hosts are; empty on this machine.
    """

    artifacts: str
    artifacts_on_hosts: str
    runs: str
    data: str = ""
    data_on_hosts: str = ""
    data_is_mounted: bool = False
    region: str = ""


def in_bucket(location: str) -> bool:
    return location.startswith((GOOGLE, S3))


def in_s3(location: str) -> bool:
    return location.startswith(S3)


def bucket_of(location: str) -> str:
    """The bucket's name."""
    return location.partition("://")[2].partition("/")[0]


def problem(location: str) -> str | None:
    """Why that is no place for files, as a stack file spells one."""
    if "://" in location and not in_bucket(location):
        return (
            f"no store is reached by {location.partition(':')[0]}://; there are three kinds, a directory (/...), "
            f"gs://bucket[/path] and s3://bucket[/path]"
        )
    if re.fullmatch(r"(gs|s3)://[a-z0-9][a-z0-9._-]+(/[^/?#\s]+)*|(/[^/\0\r\n]+)+", location):
        return None
    return "no place for files; give an absolute directory, gs:// or s3://bucket[/path], without '/' at its end"


def below(location: str, *names: str) -> str:
    """A place below a location: a Path would make `gs:/bucket` of `gs://bucket`."""
    return "/".join([location.rstrip("/"), *names])
