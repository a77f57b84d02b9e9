"""A platform's notice: the real client against a metadata server whose values change."""

from __future__ import annotations

import queue

import pytest

from infra.emulators.metadata_server import MetadataServer
from tests.training.cluster import wait_until
from training.notice import standing, watch


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("preempted", "TRUE", "the platform preempts this host"),
        ("maintenance-event", "TERMINATE_ON_HOST_MAINTENANCE", "the platform ends this host for maintenance"),
    ],
)
def test_a_notice_is_heard_when_it_is_given_and_once(key: str, value: str, said: str) -> None:
    heard: queue.Queue[str] = queue.Queue()
    with MetadataServer() as server:
        environ = {"GCE_METADATA_HOST": server.host}
        assert standing(environ) == ""
        watch(environ, heard.put)
        path = f"/computeMetadata/v1/instance/{key}"
        wait_until(
            "the long poll", lambda: server.requests.count(path) >= 3
        )  # one above, one without and one with ETag
        server.change("instance/maintenance-event", "MIGRATE_ON_HOST_MAINTENANCE")  # a live migration ends nothing
        server.change(f"instance/{key}", value)
        assert heard.get(timeout=60) == said
        assert standing(environ) == said
        asked = server.requests.count(path)
        server.change(f"instance/{key}", "NONE")
        wait_until("the next poll", lambda: server.requests.count(path) > asked)
        assert heard.empty()


def test_a_notice_that_stands_already_is_heard() -> None:
    heard: queue.Queue[str] = queue.Queue()
    with MetadataServer() as server:
        server.change("instance/preempted", "TRUE")
        watch({"GCE_METADATA_HOST": server.host}, heard.put)
        assert heard.get(timeout=60) == "the platform preempts this host"


def test_a_server_without_these_keys_says_nothing() -> None:
    with MetadataServer() as server:
        del server.values["instance/preempted"], server.values["instance/maintenance-event"]
        assert standing({"GCE_METADATA_HOST": server.host}) == ""
    assert standing({"GCE_METADATA_HOST": server.host}) == "", "nor one that is not there"
