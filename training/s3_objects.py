"""Objects of an S3 bucket, read with the credentials that a pod has. Standard library only, and nothing of ours.

Owns where those credentials come from, the signature (AWS Signature Version 4, in the query of a URL), and what a
refusal means. Refuses to own what is read, and going on in the middle of an object (training/bucket_reader.py).
bootstrap.sh runs this file by itself, before the bundle is here:

    python3 -I s3_objects.py s3://bucket[/prefix] LIST      fetches what LIST names, lines "<key> <file>"

The environment says the rest, spelled as in Amazon's own clients:
    AWS_REGION                 of the bucket
    AWS_ENDPOINT_URL_S3        another server than Amazon's: MinIO and the like
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN          a secret of the namespace
    AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ENDPOINT_URL_STS      a service account with a role (IRSA)
    AWS_CONTAINER_CREDENTIALS_FULL_URI, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE      EKS Pod Identity
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import html
import http.client
import json
import os
import re
import shutil
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

PASSING = (408, 429, 500, 502, 503, 504)
_ANSWER_S = 30.0
_URL_S = 3600  # how long a signed URL is good for: an object that takes longer is asked for again
_RENEW_BEFORE_S = 300.0
_AT_ONCE = 8
_PAUSES_S = (1, 2, 4, 8, 16)
# S3's own words: of credentials that are none, and of a bucket in another region than was signed for.
OF_CREDENTIALS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")
ELSEWHERE = ("PermanentRedirect", "AuthorizationHeaderMalformed", "AuthorizationQueryParametersError")
_EXPECTING = re.compile(r"expecting ['\"]([a-z0-9-]+)['\"]")
# Where EKS and ECS serve credentials; anywhere else the token that fetches them goes over TLS alone, as in botocore.
_LINK_LOCAL = ("169.254.170.2", "169.254.170.23", "[fd00:ec2::23]", "localhost", "127.0.0.1", "[::1]")


class S3Error(Exception):
    """What is wrong, in one sentence. is_passing: asking again may help."""

    def __init__(self, sentence: str, is_passing: bool = False) -> None:
        super().__init__(sentence)
        self.is_passing = is_passing


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect of S3 says that the bucket is in another region, for which the signature would be wrong."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirect())  # with the proxies of the environment, as curl
_near = urllib.request.build_opener(_NoRedirect(), urllib.request.ProxyHandler({}))  # what no proxy reaches


# --- credentials ---


@dataclass(frozen=True)
class Credentials:
    """expires: in seconds since the epoch. source: what to look at where they are refused."""

    key: str
    secret: str
    token: str
    expires: float
    source: str


def find_credentials(environ: Mapping[str, str]) -> Credentials:
    """In the order of Amazon's own clients. Raises S3Error."""
    if environ.get("AWS_ACCESS_KEY_ID"):
        secret = environ.get("AWS_SECRET_ACCESS_KEY")
        if not secret:
            raise S3Error("AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not; secret_variables needs both")
        token = environ.get("AWS_SESSION_TOKEN", "")
        return Credentials(environ["AWS_ACCESS_KEY_ID"], secret, token, float("inf"), "AWS_ACCESS_KEY_ID")
    if environ.get("AWS_WEB_IDENTITY_TOKEN_FILE") and environ.get("AWS_ROLE_ARN"):
        return _of_role(environ)
    if environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return _of_container(environ)
    raise S3Error(
        "this pod has no credentials of S3; give its service account a role (account_annotations: "
        "{eks.amazonaws.com/role-arn: arn:aws:iam::...}) or a Pod Identity association, or name a secret: "
        "secret_variables: {AWS_ACCESS_KEY_ID: <secret>/<key>, AWS_SECRET_ACCESS_KEY: <secret>/<key>}"
    )


def _of_role(environ: Mapping[str, str]) -> Credentials:
    """Of the role that the cluster's token for this pod stands for."""
    role = environ["AWS_ROLE_ARN"]
    asked = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": role,
        "RoleSessionName": environ.get("AWS_ROLE_SESSION_NAME") or "slipway",
        "WebIdentityToken": _token(environ["AWS_WEB_IDENTITY_TOKEN_FILE"]),
    }
    server = environ.get("AWS_ENDPOINT_URL_STS") or f"https://sts.{region(environ)}.{_domain(environ)}"
    request = urllib.request.Request(server, urlencode(asked).encode())  # noqa: S310 - https, or what was named
    answer = _asked(_opener, request, f"role {role} cannot be assumed with this pod's token")
    key, secret, token, expires = (
        _element(answer, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")
    )
    return Credentials(key, secret, token, _moment(expires), role)


def _of_container(environ: Mapping[str, str]) -> Credentials:
    url = environ["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
    host = urlsplit(url).netloc.rpartition("@")[2]
    if not url.startswith("https://") and re.sub(r":\d+$", "", host) not in _LINK_LOCAL:
        raise S3Error(f"AWS_CONTAINER_CREDENTIALS_FULL_URI is {url}, which is neither https nor EKS's own address")
    file = environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
    token = _token(file) if file else environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN", "")
    headers = {"Authorization": token} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - checked above
    answer = _asked(_near, request, "EKS Pod Identity gives this pod no credentials")
    try:
        said = json.loads(answer)
        key, secret, token = (str(said[name]) for name in ("AccessKeyId", "SecretAccessKey", "Token"))
        return Credentials(key, secret, token, _moment(said["Expiration"]), "EKS Pod Identity")
    except (ValueError, KeyError, TypeError):
        raise S3Error(f"{url} answers with no credentials", is_passing=True) from None


def _asked(opener: urllib.request.OpenerDirector, request: urllib.request.Request, problem: str) -> str:
    try:
        with opener.open(request, timeout=_ANSWER_S) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            said = _said(error.read(1 << 16).decode(errors="replace"))
        raise S3Error(f"{problem}: {error.code} {said}".rstrip(), error.code in PASSING) from None
    except (OSError, http.client.HTTPException) as error:
        raise S3Error(f"{problem}: {getattr(error, 'reason', '') or error}", is_passing=True) from None


def _token(file: str) -> str:
    try:
        return Path(file).read_text().strip()
    except OSError as error:
        raise S3Error(f"this pod's token cannot be read: {error}", is_passing=True) from None


def _moment(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


# --- where, and the signature ---


def region(environ: Mapping[str, str]) -> str:
    return environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"


def _domain(environ: Mapping[str, str]) -> str:
    return "amazonaws.com.cn" if region(environ).startswith("cn-") else "amazonaws.com"


def split(url: str) -> tuple[str, str]:
    """Bucket and name of s3://bucket/name."""
    bucket, _, name = url.removeprefix("s3://").partition("/")
    return bucket, name


def server_of(bucket: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """Scheme and host, and the path below which the bucket's objects are."""
    endpoint = environ.get("AWS_ENDPOINT_URL_S3", "").rstrip("/")
    if endpoint:
        return endpoint, f"/{bucket}"
    amazon = f"s3.{region(environ)}.{_domain(environ)}"
    if "." in bucket:  # Amazon's certificate is for one label
        return f"https://{amazon}", f"/{bucket}"
    return f"https://{bucket}.{amazon}", ""


def signed(url: str, credentials: Credentials, environ: Mapping[str, str], now: float) -> str:
    """The address at which the object is read for the next hour. now: in seconds since the epoch."""
    bucket, name = split(url)
    server, below = server_of(bucket, environ)
    path = below + "/" + quote(name, safe="/-_.~")
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    scope = f"{moment[:8]}/{region(environ)}/s3/aws4_request"
    query = {
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{credentials.key}/{scope}",
        "X-Amz-Date": moment,
        "X-Amz-Expires": str(_URL_S),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.token:
        query["X-Amz-Security-Token"] = credentials.token
    asked = urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
    parts = urlsplit(server)
    request = "\n".join(["GET", parts.path + path, asked, f"host:{parts.netloc}", "", "host", "UNSIGNED-PAYLOAD"])
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    return f"{server}{path}?{asked}&X-Amz-Signature={_hmac(key, text).hex()}"


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


# --- reading ---


class S3Objects:
    """What this pod reads of buckets; its calls may come from several threads."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._credentials: Credentials | None = None
        self._lock = threading.Lock()

    def open(self, url: str, at: int) -> Any:
        """The open answer, from byte `at` on. Raises S3Error, and OSError where there is none."""
        address = signed(url, self._current(), self._environ, time.time())
        headers = {"Range": f"bytes={at}-"} if at else {}
        request = urllib.request.Request(address, headers=headers)  # noqa: S310 - https, or what somebody named
        try:
            return _opener.open(request, timeout=_ANSWER_S)
        except urllib.error.HTTPError as error:
            raise self._refused(url, error) from None

    def _current(self) -> Credentials:
        with self._lock:
            if self._credentials is None or self._credentials.expires - _RENEW_BEFORE_S < time.time():
                self._credentials = find_credentials(self._environ)
            return self._credentials

    def _refused(self, url: str, error: urllib.error.HTTPError) -> S3Error:
        with error:
            text = error.read(1 << 16).decode(errors="replace")
            elsewhere = error.headers.get("x-amz-bucket-region") or _element(text, "Region") or expected_region(text)
        code, bucket = _element(text, "Code"), split(url)[0]
        answer = f"{error.code} {_said(text)}".strip()
        where = self._environ.get("AWS_ENDPOINT_URL_S3") or "Amazon"
        here = region(self._environ)
        if error.code in PASSING or code == "SlowDown":
            return S3Error(f"{url}: {where} answers {answer}", is_passing=True)
        if elsewhere not in ("", here) or code in ELSEWHERE:
            region_there = elsewhere or "<its region>"
            return S3Error(
                f"bucket '{bucket}' is not in {here} ({answer}); write `slipway:s3_region: {region_there}`, then "
                f"`pulumi up`"
            )
        if code == "NoSuchBucket":
            return S3Error(f"there is no bucket '{bucket}' at {where}; fix the name, or create it")
        if error.code == 404:
            return S3Error(f"{url} is not there ({answer}); run `pulumi up` again")
        if code in OF_CREDENTIALS:
            refused, self._credentials = self._credentials, None
            sentence = (
                f"{where} does not accept the credentials of {refused.source if refused else 'this pod'} ({answer})"
            )
            return S3Error(sentence, is_passing=bool(refused) and refused.expires < float("inf"))
        if error.code == 403:
            return S3Error(
                f"{url} may not be read ({answer}); this pod's account needs s3:GetObject on arn:aws:s3:::{bucket}/*, "
                f"and s3:ListBucket on the bucket, without which an absent object is refused too"
            )
        return S3Error(f"{url} cannot be read: {where} answers {answer}")


def expected_region(answer: str) -> str:
    """The region that S3 says it expects; empty where it does not."""
    match = _EXPECTING.search(html.unescape(answer))
    return match[1] if match else ""


def _element(text: str, name: str) -> str:
    match = re.search(rf"<{name}>([^<]*)</{name}>", text)
    return html.unescape(match[1]) if match else ""


def _said(text: str) -> str:
    """Code and message of an answer of Amazon's."""
    return ": ".join(filter(None, (_element(text, "Code"), _element(text, "Message")))).rstrip(".")


# --- for bootstrap.sh ---


def fetch(objects: S3Objects, url: str, file: Path, pauses_s: Sequence[float] = _PAUSES_S) -> None:
    """The whole object into the file, again after each pause. Raises S3Error, or OSError of the disk."""
    for pause in (*pauses_s, None):
        try:
            with objects.open(url, 0) as answer, file.open("wb") as stream:
                shutil.copyfileobj(answer, stream, 1 << 20)
                at = stream.tell()
            size = int(answer.headers.get("Content-Length") or at)
            if at == size:
                return
            problem = S3Error(f"{url} broke off at byte {at:,} of {size:,}")
        except S3Error as error:
            if not error.is_passing:
                raise
            problem = error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            problem = S3Error(f"{url} cannot be read: {getattr(error, 'reason', '') or error}")
        if pause is None:
            raise problem
        time.sleep(pause)


def main(arguments: Sequence[str]) -> int:
    """Exit code 1 with one line on standard error."""
    store, listed = arguments
    objects = S3Objects(os.environ)
    wanted = [line.split(" ", 1) for line in Path(listed).read_text().splitlines()]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [pool.submit(fetch, objects, f"{store.rstrip('/')}/{key}", Path(file)) for key, file in wanted]
        try:
            for one in running:
                one.result()
        except (S3Error, OSError) as error:
            pool.shutdown(wait=False, cancel_futures=True)
            print(error, file=sys.stderr, flush=True)
            os._exit(1)  # what is under way elsewhere need not end first
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
