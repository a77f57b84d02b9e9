"""How pods ask S3: the signature, and where credentials come from, compared with Amazon's own client."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import botocore.session  # pyright: ignore[reportMissingTypeStubs]
import pytest
from botocore.config import Config  # pyright: ignore[reportMissingTypeStubs]

from infra.emulators.http_server import EmulatorHandler, HttpEmulator
from training.s3_objects import Credentials, S3Error, S3Objects, fetch, find_credentials, signed

NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
SECRET = "secret/+="
ROLE = "arn:aws:iam::123456789012:role/training"
SOON = (NOW + datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
# As docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html shows it.
ASSUMED = f"""<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <SubjectFromWebIdentityToken>system:serviceaccount:team:slipway</SubjectFromWebIdentityToken>
    <Audience>sts.amazonaws.com</Audience>
    <AssumedRoleUser>
      <Arn>{ROLE.replace("iam", "sts").replace("role", "assumed-role")}/slipway</Arn>
      <AssumedRoleId>AROACLKWSDQRAOEXAMPLE:slipway</AssumedRoleId>
    </AssumedRoleUser>
    <Credentials>
      <SessionToken>token/of+the=session</SessionToken>
      <SecretAccessKey>secret/of+the=role</SecretAccessKey>
      <Expiration>{SOON}</Expiration>
      <AccessKeyId>ASgeIAIOSFODNN7EXAMPLE</AccessKeyId>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>"""
DENIED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error>
</ErrorResponse>"""


class CredentialServer(HttpEmulator):
    """Answers as STS and as EKS' agent on each node; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        self.answer: tuple[int, str] = (200, ASSUMED)
        super().__init__(_Handler)


class _Handler(EmulatorHandler):
    def do_POST(self) -> None:  # noqa: N802
        server = self.server.owner
        assert isinstance(server, CredentialServer)
        asked = {name: value[0] for name, value in parse_qs(self.body().decode()).items()}
        server.asked.append(asked | {"authorization": self.headers.get("Authorization", "")})
        code, text = server.answer
        self.send(code, {}, text.encode())

    do_GET = do_POST  # noqa: N815


@pytest.fixture
def server() -> Iterator[CredentialServer]:
    with CredentialServer() as server:
        yield server


def of_amazons_client(environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Credentials:
    """What botocore finds in the same environment."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = botocore.session.get_session().get_credentials().get_frozen_credentials()
    return Credentials(found.access_key, found.secret_key, found.token or "", 0, "")


def same(ours: Credentials, theirs: Credentials) -> bool:
    return (ours.key, ours.secret, ours.token) == (theirs.key, theirs.secret, theirs.token)


# --- the signature ---


@pytest.mark.parametrize("token", ["", "a/session+token=="])
@pytest.mark.parametrize(
    ("region", "endpoint", "bucket"),
    [
        ("us-east-1", "", "bucket"),
        ("eu-central-1", "", "bucket"),
        ("eu-central-1", "", "bucket.with.dots"),
        ("cn-north-1", "", "bucket"),
        ("us-east-1", "http://127.0.0.1:9000", "bucket"),
        ("us-east-1", "https://minio.example.com/below", "bucket"),
    ],
)
@pytest.mark.parametrize("name", ["objects/ab/jax-0.9+cuda-py3.whl", "a b/é~(1)=&?#%/x"])
def test_a_url_is_signed_as_amazons_client_signs_it(
    monkeypatch: pytest.MonkeyPatch, region: str, endpoint: str, bucket: str, name: str, token: str
) -> None:
    environ = {"AWS_REGION": region} | ({"AWS_ENDPOINT_URL_S3": endpoint} if endpoint else {})
    style = {"addressing_style": "path" if endpoint else "virtual", "us_east_1_regional_endpoint": "regional"}
    client: Any = botocore.session.get_session().create_client(
        "s3",
        region_name=region,
        endpoint_url=endpoint or None,
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key=SECRET,
        aws_session_token=token or None,
        config=Config(signature_version="s3v4", s3=style),
    )
    theirs = urlsplit(client.generate_presigned_url("get_object", {"Bucket": bucket, "Key": name}, ExpiresIn=3600))
    said = dict(parse_qsl(theirs.query))
    moment = datetime.datetime.strptime(said["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    credentials = Credentials("AKIAIOSFODNN7EXAMPLE", SECRET, token, 0, "")
    ours = urlsplit(signed(f"s3://{bucket}/{name}", credentials, environ, moment.timestamp()))
    assert (ours.scheme, ours.netloc, ours.path) == (theirs.scheme, theirs.netloc, theirs.path)
    assert dict(parse_qsl(ours.query)) == said


# --- credentials ---


def test_keys_of_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert same(find_credentials(environ), of_amazons_client(environ, monkeypatch))
    with pytest.raises(S3Error, match="AWS_SECRET_ACCESS_KEY is not; secret_variables needs both"):
        find_credentials({"AWS_ACCESS_KEY_ID": "key"})


def test_a_service_account_with_a_role(
    server: CredentialServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as Amazon's client, of the same answer, by the same question."""
    (tmp_path / "token").write_text("a.projected.token")
    environ = {
        "AWS_ROLE_ARN": ROLE,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_ENDPOINT_URL_STS": server.url,
        "AWS_ROLE_SESSION_NAME": "slipway",
        "AWS_REGION": "eu-central-1",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }
    ours = find_credentials(environ)
    assert same(ours, of_amazons_client(environ, monkeypatch))
    assert (ours.key, ours.token, ours.source) == ("ASgeIAIOSFODNN7EXAMPLE", "token/of+the=session", ROLE)
    assert ours.expires == (NOW + datetime.timedelta(hours=1)).timestamp()
    by_us, by_them = server.asked
    assert by_us == by_them
    server.answer = (403, DENIED)
    with pytest.raises(
        S3Error, match=f"role {ROLE} cannot be assumed with this pod's token: 403 AccessDenied: Not auth"
    ):
        find_credentials(environ)


def test_eks_pod_identity(server: CredentialServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("a.projected.token\n")
    environ = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
    }
    keys = {"AccessKeyId": "key", "SecretAccessKey": "secret", "Token": "token", "AccountId": "1", "Expiration": SOON}
    server.answer = (200, json.dumps(keys))
    ours = find_credentials(environ)
    (tmp_path / "token").write_text("a.projected.token")  # Amazon's client refuses a line break in it
    assert same(ours, of_amazons_client(environ, monkeypatch))
    assert [one["authorization"] for one in server.asked] == ["a.projected.token"] * 2
    server.answer = (200, "{}")
    with pytest.raises(S3Error, match="answers with no credentials") as caught:
        find_credentials(environ)
    assert caught.value.is_passing


def test_a_token_goes_to_nobody_else(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with pytest.raises(S3Error, match="which is neither https nor EKS's own address"):
        find_credentials(
            {
                "AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23.example.com/v1/credentials",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token"),
            }
        )


def test_a_pod_without_credentials_is_told_how_it_gets_some() -> None:
    with pytest.raises(S3Error, match="this pod has no credentials of S3; give its service account a role"):
        find_credentials({})


# --- reading ---


class Busy(HttpEmulator):
    """A bucket whose answers are those of a list, the last one for ever; and what gives pods credentials, at /keys."""

    def __init__(self, *answers: tuple[int, str, int]) -> None:
        self.answers = list(answers)
        self.keys_given = 0
        super().__init__(_OfBusy)


class _OfBusy(EmulatorHandler):
    def do_GET(self) -> None:  # noqa: N802
        server = self.server.owner
        assert isinstance(server, Busy)
        if self.path == "/keys":
            server.keys_given += 1
            keys = {"AccessKeyId": "key", "SecretAccessKey": "secret", "Token": "token", "Expiration": SOON}
            self.send(200, {}, json.dumps(keys).encode())
            return
        code, text, length = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        self.send(code, {}, text.encode(), length)


WHOLE, CUT = (200, "content", 7), (200, "con", 7)
SLOW = (503, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>", 85)
EXPIRED = (400, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>", 90)


def fetched(server: Busy, file: Path) -> str:
    environ = {
        "AWS_ENDPOINT_URL_S3": server.url,
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/keys",
        "AWS_REGION": "us-east-1",
    }
    fetch(S3Objects(environ), "s3://bucket/key", file, pauses_s=(0, 0))
    return file.read_text()


def test_what_passes_is_asked_for_again(tmp_path: Path) -> None:
    with Busy(SLOW, CUT, WHOLE) as server:
        assert fetched(server, tmp_path / "file") == "content"
        assert server.keys_given == 1


def test_credentials_that_end_meanwhile_are_had_anew(tmp_path: Path) -> None:
    with Busy(EXPIRED, WHOLE) as server:
        assert fetched(server, tmp_path / "file") == "content"
        assert server.keys_given == 2


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (SLOW, "s3://bucket/key: http://.* answers 503 SlowDown: Please reduce your request rate$"),
        (CUT, "^s3://bucket/key (broke off at byte 3 of 7|cannot be read: IncompleteRead)"),
    ],
)
def test_what_does_not_pass_is_said(tmp_path: Path, answer: tuple[int, str, int], sentence: str) -> None:
    with Busy(answer) as server, pytest.raises(S3Error, match=sentence):
        fetched(server, tmp_path / "file")
