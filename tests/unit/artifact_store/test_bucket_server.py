"""The bucket's server: what it refuses, in statuses that Cloud Storage's clients go by, and that it takes no half."""

from __future__ import annotations

import importlib
import socket
from typing import Any

import pytest
import requests
from google.api_core.exceptions import BadRequest, Conflict

from infra.emulators.object_store import ObjectStore, StoreFaultKind

UPLOAD = "upload/storage/v1/b/bucket/o"
_storage: Any = importlib.import_module("google.cloud.storage")  # it has no types


def asked(
    server: ObjectStore, method: str, path: str, content: bytes = b"", **headers: str
) -> tuple[int, requests.Response]:
    answer = requests.request(method, f"{server.url}/{path}", data=content, headers=headers, timeout=900)
    return answer.status_code, answer


def said(answer: requests.Response) -> str:
    return answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", "storage/v1/b/elsewhere/o", 404, "The specified bucket does not exist."),
        ("GET", "storage/v1/b/bucket/o/a%2F..%2F..%2Fb", 400, "Invalid object name for this emulator: a/../../b"),
        ("POST", f"{UPLOAD}?uploadType=media&name=a//b", 400, "Invalid object name for this emulator: a//b"),
        ("POST", f"{UPLOAD}?uploadType=multipart&name=k", 400, "A multipart upload needs a boundary."),
        ("POST", f"{UPLOAD}?uploadType=formdata&name=k", 400, "Unknown uploadType 'formdata'."),
        ("PUT", f"{UPLOAD}?uploadType=resumable&upload_id=gone", 404, "No such upload session."),
        (
            "GET",
            "storage/v1/b/bucket/o?pageToken=%C3%A9",
            400,
            "Invalid page token: \N{LATIN SMALL LETTER E WITH ACUTE}",
        ),
        ("PUT", "storage/v1/b", 404, "The emulator does not know PUT /storage/v1/b."),
        ("PUT", "bucket/k", 404, "The emulator does not know PUT /bucket/k."),
    ],
)
def test_what_is_no_call_of_it_is_refused_and_leaves_nothing(
    server: ObjectStore, method: str, path: str, status: int, sentence: str
) -> None:
    code, answer = asked(server, method, path, b"content")
    assert (code, said(answer)) == (status, sentence)
    assert [file for file in server.root.rglob("*") if file.is_file()] == []


def test_a_bucket_tells_where_it_is_and_one_that_is_not_there_does_not(server: ObjectStore) -> None:
    code, answer = asked(server, "GET", "storage/v1/b/bucket")
    assert (code, answer.json()["name"], answer.json()["location"]) == (200, "bucket", "US")
    assert answer.json()["locationType"] == "multi-region", "as at Google where nobody named a place"
    client = _storage.Client(project="p")
    made = client.create_bucket("made-there", location="europe-west4")
    assert (made.location, made.location_type, made.data_locations) == ("EUROPE-WEST4", "region", None)
    made.reload()
    assert made.location == "EUROPE-WEST4"
    pair = client.create_bucket("pair", location="US", data_locations=["US-EAST5", "US-CENTRAL1"])
    assert (pair.location_type, pair.data_locations) == ("dual-region", ["US-EAST5", "US-CENTRAL1"])
    pair.delete()
    assert client.create_bucket("pair").location == "US", "another bucket of that name"
    assert asked(server, "GET", "storage/v1/b/elsewhere")[0] == 404


def test_a_bucket_is_made_once_and_deleted_when_it_is_empty(server: ObjectStore) -> None:
    client = _storage.Client(project="p")
    made = client.create_bucket("made-here")
    with pytest.raises(Conflict, match="you already own it"):
        client.create_bucket("made-here")
    with pytest.raises(BadRequest, match="Invalid bucket name: 'Made/Here'"):
        client.create_bucket("Made/Here")
    blob = made.blob("a/b")
    blob.upload_from_string("content")
    with pytest.raises(Conflict, match="not empty"):
        made.delete()
    blob.delete()
    made.delete()
    assert sorted(path.name for path in server.root.iterdir()) == ["bucket"]


def test_a_generation_that_is_gone_and_a_range_beyond_the_end_are_told_from_the_object(server: ObjectStore) -> None:
    file = server.root / "bucket" / "k"
    file.write_bytes(b"content")
    path = "storage/v1/b/bucket/o/k?alt=media"
    generation = asked(server, "GET", path)[1].headers["X-Goog-Generation"]
    assert asked(server, "GET", f"{path}&generation={generation}")[1].content == b"content"
    code, answer = asked(server, "GET", f"{path}&generation={generation}0")
    assert (code, said(answer)) == (404, "No such object: bucket/k")
    code, answer = asked(server, "GET", path, Range="bytes=3-4")
    assert (code, answer.content, answer.headers["Content-Range"]) == (206, b"te", "bytes 3-4/7")
    code, answer = asked(server, "GET", path, Range="bytes=7-")
    assert (code, said(answer)) == (416, "The requested range cannot be satisfied.")


def test_an_object_that_is_moved_is_another_one_under_its_new_name(server: ObjectStore) -> None:
    (server.root / "bucket" / "k").write_bytes(b"content")
    generation = asked(server, "GET", "storage/v1/b/bucket/o/k")[1].json()["generation"]
    code, answer = asked(server, "POST", "storage/v1/b/bucket/o/k/moveTo/o/a%2Fb")
    assert (code, answer.json()["name"], answer.json()["size"]) == (200, "a/b", "7")
    assert answer.json()["generation"] != generation
    assert asked(server, "GET", "storage/v1/b/bucket/o/k")[0] == 404
    assert asked(server, "POST", "storage/v1/b/bucket/o/k/moveTo/o/c")[0] == 404
    assert [item["name"] for item in asked(server, "GET", "storage/v1/b/bucket/o")[1].json()["items"]] == ["a/b"]


def test_names_are_listed_from_the_first_offset_to_before_the_last(server: ObjectStore) -> None:
    """TensorStore lists a folder so, and gives no prefix."""
    for name in ("a", "b/1", "b/2", "c"):
        (server.root / "bucket" / name).parent.mkdir(exist_ok=True)
        (server.root / "bucket" / name).write_bytes(b"content")
    server.objects.page_size = 10
    code, answer = asked(server, "GET", "storage/v1/b/bucket/o?startOffset=b/&endOffset=b0")
    assert (code, [item["name"] for item in answer.json()["items"]]) == (200, ["b/1", "b/2"])


@pytest.mark.parametrize(
    ("kind", "status"), [(StoreFaultKind.LOST, 404), (StoreFaultKind.LIMITED, 429), (StoreFaultKind.FULL, 507)]
)
def test_a_call_that_is_refused_does_nothing(server: ObjectStore, kind: StoreFaultKind, status: int) -> None:
    server.fail(kind)
    assert asked(server, "POST", f"{UPLOAD}?uploadType=media&name=k", b"content")[0] == status
    assert not (server.root / "bucket" / "k").exists()


def test_who_asks_whether_to_send_a_body_is_told_before_it_is_sent(server: ObjectStore) -> None:
    """As curl and TensorStore do with large ones; they wait a second for it."""
    head = f"POST /{UPLOAD}?uploadType=media&name=k HTTP/1.1\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=900) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"content")
        assert connection.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")


def test_an_upload_with_another_md5_is_refused(server: ObjectStore) -> None:
    properties = b'{"name": "k", "md5Hash": "AAAAAAAAAAAAAAAAAAAAAA=="}'
    parts = b"--x\r\n\r\n%s\r\n--x\r\n\r\ncontent\r\n--x--" % properties
    kind = {"Content-Type": 'multipart/related; boundary="x"'}
    code, answer = asked(server, "POST", f"{UPLOAD}?uploadType=multipart", parts, **kind)
    assert (code, said(answer)) == (
        400,
        'Provided MD5 hash "AAAAAAAAAAAAAAAAAAAAAA==" doesn\'t match calculated "mgNkuembtIDdJeHwKEyFVQ==".',
    )
    assert not (server.root / "bucket" / "k").exists()


def test_a_chunk_is_taken_where_the_last_one_ended_and_nowhere_else(server: ObjectStore) -> None:
    code, answer = asked(server, "POST", f"{UPLOAD}?uploadType=resumable&name=k")
    session = answer.headers["Location"].removeprefix(f"{server.url}/")
    code, answer = asked(server, "PUT", session, b"con")
    assert (code, said(answer)) == (400, "A chunk needs a Content-Range.")
    code, answer = asked(server, "PUT", session, b"tent", **{"Content-Range": "bytes 3-6/7"})
    assert (code, said(answer)) == (503, "A chunk is missing.")
    code, answer = asked(server, "PUT", session, b"con", **{"Content-Range": "bytes 0-2/*"})
    assert (code, answer.headers["Range"]) == (308, "bytes=0-2")
    code, answer = asked(server, "PUT", session, b"", **{"Content-Range": "bytes */7"})
    assert (code, answer.headers["Range"]) == (308, "bytes=0-2"), "asked how much of it has arrived"
    assert not (server.root / "bucket" / "k").exists()
    code, answer = asked(server, "PUT", session, b"tent", **{"Content-Range": "bytes 3-6/7"})
    assert (code, answer.json()["size"], (server.root / "bucket" / "k").read_bytes()) == (200, "7", b"content")


def test_a_client_that_is_gone_before_its_last_chunk_leaves_nothing(server: ObjectStore) -> None:
    head = f"POST /{UPLOAD}?uploadType=media&name=k HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=900) as connection:
        connection.sendall(head.encode() + b"3\r\ncon\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"", "no answer: the server has closed its end"
    assert not (server.root / "bucket" / "k").exists()
    assert server.errors == [], "that a client was killed is no mistake of the server's"
    whole = requests.post(f"{server.url}/{UPLOAD}?uploadType=media&name=k", data=iter((b"con", b"tent")), timeout=900)
    assert (whole.status_code, (server.root / "bucket" / "k").read_bytes()) == (200, b"content")


def test_a_server_that_never_served_lets_its_port_go(server: ObjectStore) -> None:
    """`close` would wait for the end of a loop that never ran."""
    other = ObjectStore(server.root)
    other.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", other.port), timeout=900)
