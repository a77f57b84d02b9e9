"""A cluster's credential: Google's own library asks a token server for it, with a service account's key."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from infra import google_login


class TokenServer(BaseHTTPRequestHandler):
    """Gives whoever asks with a signed statement a token of an hour."""

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        token = {"access_token": f"for-{asked['grant_type'][0].rpartition(':')[2]}", "expires_in": 3600}
        body = json.dumps(token | {"token_type": "Bearer"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), TokenServer) as google:
        threading.Thread(target=google.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{google.server_port}/token"
        google.shutdown()


def test_the_credential_is_a_token_and_how_long_it_is_good(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    account = {"type": "service_account", "client_email": "ci@ours.iam.gserviceaccount.com", "token_uri": server}
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account | {"private_key": pem.decode(), "project_id": "ours"}))
    for variable in ("GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    credential = json.loads(google_login.credential())
    assert (credential["apiVersion"], credential["kind"]) == ("client.authentication.k8s.io/v1", "ExecCredential")
    assert credential["status"]["token"] == "for-jwt-bearer"
    assert credential["status"]["expirationTimestamp"].endswith("Z"), "kubectl and the client ask anew after it"
