"""What a bucket answered, in the words in which its clients raised it against the emulated bucket, 2026-11-25."""

from __future__ import annotations

import json

import pytest
from fsspec.exceptions import FSTimeoutError
from gcsfs.retry import HttpError
from google.api_core.exceptions import from_http_status
from orbax.checkpoint._src.serialization import tensorstore_utils
from requests.exceptions import ProxyError

from training.bucket_clients import environment, limit_retries, patience
from training.bucket_errors import bucket_error
from training.endings import Cause, is_lost_host, of_error

DENIED = "the caller does not have storage access to the Google Cloud Storage object."
LIMITED = "The rate of requests to this bucket is too high. Please reduce your request rate."
LOST = "The specified bucket does not exist."
FULL = "There is no storage left for this bucket."
STANDS = "; the previous checkpoint stands"


def tensorstore(before: str, status: int, said: str, *, code_first: bool = False, spec: bool = False) -> ValueError:
    """TensorStore 0.1.86: what it knows follows in brackets, in any order."""
    message = rf"\"message\": \"{said}\""
    body = rf"[http_response_body='{{\"error\": {{\"code\": {status}, {message}, \"errors\": [{{{message}}}]}}}}']"
    added = [body, f"[http_response_code='{status}']"]
    if spec:
        added.insert(0, r"[tensorstore_spec='{\"driver\":\"zarr3\",\"kvstore\":{\"base\":{\"bucket\":\"bucket\"}}}']")
    return ValueError(f"{before}: {said} {' '.join(reversed(added) if code_first else added)}")


WRITING = 'Error writing "c/0/0" in OCDBT database at gs://bucket/run/o/: Error reading Byte range [272, 353) of gs://bucket/run/o/d/9ccd'
OPENING = 'Error opening "zarr3" driver: Error reading gs://bucket/run/p/manifest.ocdbt'
UPLOAD = "http://127.0.0.1:43501/upload/storage/v1/b/bucket/o?name=run%2Fb.txt"
GET = "GET http://127.0.0.1:43501/storage/v1/b/bucket?projection=noAcl&prettyPrint=false"
SLOW = "CURL error Timeout was reached: Operation too slow. Less than 1 bytes/sec transferred the last 3 seconds"


@pytest.mark.parametrize(
    ("error", "reason", "cause"),
    [
        (
            tensorstore(f"PERMISSION_DENIED: {WRITING}", 403, DENIED),
            f"gs://bucket answers 403: {DENIED}",
            Cause.TRAINING,
        ),
        (tensorstore("PERMISSION_DENIED", 403, DENIED), f"the bucket answers 403: {DENIED}", Cause.TRAINING),
        (OSError(f"Forbidden: {UPLOAD}\n{DENIED}"), f"gs://bucket answers 403: {DENIED}", Cause.TRAINING),
        (OSError(f"Forbidden: b/bucket/o\n{DENIED}"), f"gs://bucket answers 403: {DENIED}", Cause.TRAINING),
        (from_http_status(403, f"{GET}: {DENIED}"), f"gs://bucket answers 403: {DENIED}", Cause.TRAINING),
        (
            tensorstore(f"ABORTED: {WRITING}: All 2 retry attempts failed", 507, FULL),
            f"gs://bucket answers 507: {FULL}",
            Cause.TRAINING,
        ),
        (HttpError({"code": 507, "message": FULL}), f"the bucket answers 507: {FULL}", Cause.TRAINING),
        (
            tensorstore(f"ABORTED: {OPENING}: All 2 retry attempts failed", 429, LIMITED, code_first=True, spec=True),
            f"gs://bucket answers 429: {LIMITED}",
            Cause.OUTSIDE,
        ),
        (HttpError({"code": 429, "message": LIMITED}), f"the bucket answers 429: {LIMITED}", Cause.OUTSIDE),
        (from_http_status(503, f"{GET}: Backend Error"), "gs://bucket answers 503: Backend Error", Cause.OUTSIDE),
        (
            ValueError(f"ABORTED: {WRITING}: All 2 retry attempts failed: {SLOW} [curl_code='28']"),
            f"gs://bucket does not answer: {SLOW}",
            Cause.OUTSIDE,
        ),
        (FSTimeoutError(), "the bucket does not answer: FSTimeoutError", Cause.OUTSIDE),
        (ProxyError(), "the bucket does not answer: ProxyError", Cause.OUTSIDE),  # gcsfs's word for 502
    ],
)
def test_what_a_bucket_answers_is_told_with_its_status_and_sentence(
    error: Exception, reason: str, cause: Cause
) -> None:
    ending = of_error(error, None, hosts=2)
    assert (ending.reason, ending.cause) == (reason + STANDS, cause)
    assert not is_lost_host(error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (tensorstore(f"NOT_FOUND: {OPENING}", 404, LOST, spec=True), f"gs://bucket answers 404: {LOST}"),
        (FileNotFoundError(UPLOAD), "gs://bucket answers 404: there is no b/bucket/o"),
        (ValueError(f"NOT_FOUND: {WRITING}"), "gs://bucket answers 404: an object that was written is not there"),
        (FileNotFoundError("b/bucket/o"), "gs://bucket answers 404: there is no b/bucket/o"),
        (from_http_status(404, f"{GET}: {LOST}"), f"gs://bucket answers 404: {LOST}"),
    ],
)
def test_of_a_bucket_that_is_lost_no_checkpoint_is_said_to_stand(error: Exception, reason: str) -> None:
    ending = of_error(error, None)
    assert (ending.reason, ending.cause) == (reason, Cause.TRAINING)


def test_a_permission_that_is_named_is_followed_by_the_role_that_has_it() -> None:
    """TensorStore escapes quotes, and cuts the bucket's answer after some 250 characters."""
    lacks = (
        "vm@p.iam.gserviceaccount.com does not have storage.objects.delete access to the Google Cloud Storage object."
    )
    denied = "Permission 'storage.objects.delete' denied on resource (or it may not exist)."
    escaped = denied.replace("'", r"\'")
    body = rf"[http_response_body='{{\n  \"error\": {{\n    \"code\": 403,\n    \"message\": \"{lacks} {escaped}\",\n']"
    cut = rf"[http_response_body='{{\n  \"error\": {{\n    \"code\": 403,\n    \"message\": \"{lacks[:40]}']"
    for said in (body, cut):
        error = ValueError(f"PERMISSION_DENIED: {WRITING}: {lacks} {denied} [http_response_code='403'] {said}")
        assert of_error(error, None).reason == (
            f"gs://bucket answers 403: {lacks} {denied.rstrip('.')}; the hosts' account needs roles/storage.objectUser "
            f"there, which a foundation gives it{STANDS}"
        )


def test_the_bucket_is_found_below_what_maxtext_makes_of_it() -> None:
    error = FileNotFoundError("GCS bucket 'gs://bucket' not found or accessible.")
    error.__cause__ = from_http_status(403, f"{GET}: {DENIED}")
    assert of_error(error, None).reason == f"gs://bucket answers 403: {DENIED}{STANDS}"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError("Incompatible shapes: (4, 503) and (4, 504)"), Cause.TRAINING),
        (RuntimeError("UNAVAILABLE: Gloo all-reduce failed: Connection closed by peer"), Cause.LOST_HOST),
    ],
)
def test_an_object_that_was_looked_for_in_vain_before_is_not_what_ended_it(error: Exception, cause: Cause) -> None:
    error.__context__ = FileNotFoundError("b/bucket/o")
    ending = of_error(error, None, hosts=2)
    assert (ending.reason, ending.cause) == (f"{type(error).__name__}: {error}", cause)


@pytest.mark.parametrize("error", [FileNotFoundError(2, "No such file or directory", "a/b/o"), ValueError("403")])
def test_what_is_of_no_bucket_is_left_to_others(error: Exception) -> None:
    assert bucket_error([error]) is None


@pytest.mark.parametrize(("standstill_s", "retries", "answer_s"), [(5, 1, 1), (10, 1, 2), (60, 4, 6), (600, 7, 37)])
def test_a_request_is_given_up_before_a_save_is_called_a_standstill(
    standstill_s: int, retries: int, answer_s: int
) -> None:
    found = patience(standstill_s)
    assert (found.retries, found.answer_s) == (retries, answer_s)
    waits = sum(2**retry + 1 for retry in range(retries))
    assert waits + (retries + 1) * answer_s <= standstill_s


def test_the_other_clients_have_their_limits_from_the_environment() -> None:
    given = environment(60)
    assert given["TENSORSTORE_CURL_LOW_SPEED_TIME_SECONDS"] == "6"
    assert json.loads(given["FSSPEC_GCS"]) == {"requests_timeout": 30, "use_listings_cache": False}


@pytest.mark.parametrize("use_ocdbt", [True, False])
def test_orbax_tells_tensorstore_how_often_it_may_ask(monkeypatch: pytest.MonkeyPatch, use_ocdbt: bool) -> None:
    for name in ("_BASE_TS_CONTEXT", "_DEFAULT_OCDBT_TS_CONTEXT"):
        monkeypatch.setattr(tensorstore_utils, name, dict(getattr(tensorstore_utils, name)))
    limit_retries(60)
    context = tensorstore_utils.get_ts_context(use_ocdbt=use_ocdbt)
    assert context["gcs_request_retries"].to_json() == {"max_retries": 4}
