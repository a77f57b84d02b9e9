"""What a bucket answered, or that it did not, read out of what its three clients raise. A leaf: standard library only.

Owns the clients' words: TensorStore's, gcsfs's and google-cloud-storage's, of the releases in training/uv.lock. Refuses
to own what follows from an answer (training/endings.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_PASSING = (408, 429, 500, 502, 503, 504)
_CLIENTS = ("aiohttp", "gcsfs", "fsspec", "requests", "urllib3")

# TensorStore adds what it knows in brackets, in any order; the bucket's sentence is in the body, as JSON in a string.
_ADDED = re.compile(r" \[(http_response_code|http_response_body|curl_code|tensorstore_spec)=")
_ADDED_STATUS = re.compile(r"\[http_response_code='(\d{3})'\]")
_ADDED_CURL = re.compile(r"(CURL error .*?) \[(?:curl_code|tensorstore_spec|http_response)")
_MESSAGE = re.compile(r'\\?"message\\?": \\?"(.*?)\\?"[,}]')
_ESCAPED = re.compile(r"\\(['\"])")
_API_CORE = re.compile(r"(\d{3}) (?:GET|HEAD|POST|PUT|PATCH|DELETE) \S+: (.*)", re.DOTALL)
_FORBIDDEN = re.compile(r"Forbidden: \S+\n(.*)", re.DOTALL)
_NOT_FOUND = re.compile(r"(?:http\S+/v1/)?(b/[^/\s]+/o\b[^?\s]*)\S*")
_NOTHING_READ = re.compile(r"NOT_FOUND: .*Error reading .*gs://", re.DOTALL)  # TensorStore keeps the answer to itself
_PERMISSION = re.compile(r"does not have (storage\.(?:buckets|objects))\.\w+ access")
# Those of infra/targets/foundation/components/identity.py.
_ROLES = {"storage.objects": "roles/storage.objectUser", "storage.buckets": "roles/storage.legacyBucketReader"}
_NAME = re.compile(r"gs://([^/\s'\"]+)|\bb/([^/\s?]+)")


@dataclass(frozen=True)
class BucketError:
    """`name` is empty where the client does not say it, `status` None where the bucket has not answered."""

    name: str
    status: int | None
    said: str

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later, with nothing changed."""
        return self.status is None or self.status in _PASSING

    @property
    def is_loss(self) -> bool:
        """Whether what was asked for is not there: a bucket, or an object that had been written."""
        return self.status == 404

    def __str__(self) -> str:
        bucket = f"gs://{self.name}" if self.name else "the bucket"
        said = f": {self.said}" if self.said else ""
        if lacking := _PERMISSION.search(said):
            role = _ROLES[lacking[1]]
            said = f"{said.rstrip('.')}; the hosts' account needs {role} there, which a foundation gives it"
        return f"{bucket} does not answer{said}" if self.status is None else f"{bucket} answers {self.status}{said}"


def bucket_error(chain: Sequence[BaseException]) -> BucketError | None:
    """Of an error and its causes; an answer tells more than that there was none."""
    answers = [answer for link in chain if (answer := _read(link) or (_missing(link) if link is chain[0] else None))]
    if not answers:
        return None
    status, said = next((answer for answer in answers if answer[0]), answers[-1])
    named = next((match for link in chain if (match := _NAME.search(str(link)))), None)
    return BucketError(named[1] or named[2] if named else "", status, said)


def _read(error: BaseException) -> tuple[int | None, str] | None:
    text = str(error)
    if status := _ADDED_STATUS.search(text):
        message = _MESSAGE.search(text)
        said = _ESCAPED.sub(r"\1", message[1]) if message else _ADDED.split(text)[0].rpartition(": ")[2]
        return int(status[1]), said
    if unreached := _ADDED_CURL.search(text):
        return None, unreached[1]
    if answer := _API_CORE.fullmatch(text):
        return int(answer[1]), answer[2]
    if refused := _FORBIDDEN.fullmatch(text):
        return 403, refused[1]
    if type(error).__module__.partition(".")[0] not in _CLIENTS:
        return None
    code = getattr(error, "code", None)  # gcsfs's, which it adds to its message
    return (int(code), text.removesuffix(f", {code}")) if code else (None, text or type(error).__name__)


def _missing(error: BaseException) -> tuple[int, str] | None:
    """An object that was asked for in vain, which is an end only where nobody has taken it for something else."""
    text = str(error)
    if isinstance(error, FileNotFoundError) and (missing := _NOT_FOUND.fullmatch(text)):
        return 404, f"there is no {missing[1]}"
    return (404, "an object that was written is not there") if _NOTHING_READ.match(text) else None
