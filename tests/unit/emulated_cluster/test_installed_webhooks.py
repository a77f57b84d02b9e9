"""What somebody installs with JobSet in an emulated cluster is led to the controller that runs beside it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from infra.emulators.cluster.installed_webhooks import led

APPLIED = [
    {"manager": "kube-controller-manager", "operation": "Update"},
    {"manager": "kubectl", "operation": "Apply"},
]


def webhooks(service: str = "jobset-webhook-service", fields: list[dict[str, str]] = APPLIED) -> dict[str, Any]:
    client = {"service": {"name": service, "namespace": "jobset-system", "path": "/validate", "port": 443}}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating", "labels": {"a": "b"}, "uid": "1", "managedFields": fields},
        "webhooks": [{"name": "vjobset.kb.io", "clientConfig": client, "failurePolicy": "Fail"}],
    }


def test_its_service_becomes_an_address_of_this_machine_in_the_name_of_who_applied_it() -> None:
    found = led(webhooks(), 20001, b"signs")
    assert found
    manager, wanted = found
    assert manager == "kubectl"
    assert wanted["metadata"] == {"name": "validating", "labels": {"a": "b"}}, "what the server adds is not applied"
    client = {"url": "https://127.0.0.1:20001/validate", "caBundle": base64.b64encode(b"signs").decode()}
    assert wanted["webhooks"] == [{"name": "vjobset.kb.io", "clientConfig": client, "failurePolicy": "Fail"}]
    assert led({**wanted, "metadata": {"name": "validating", "managedFields": APPLIED}}, 20001, b"signs") is None


@pytest.mark.parametrize("found", [webhooks("another-service"), webhooks(fields=APPLIED[:1])])
def test_what_is_no_jobsets_or_was_not_applied_stays_as_it_is(found: dict[str, Any]) -> None:
    assert led(found, 20001, b"signs") is None
