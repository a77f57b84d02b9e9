"""Refusals as Google's APIs word them: google.rpc codes, sentences, details.

Owns the form of an error. Refuses to own when one is due.

Seen (public reports, read 2026-11-21): the quota refusal word for word, the sentences of a zone that
is full, of a zone without the accelerator (2024-08), of a reservation that is full (2025-01) and of one that is not
there, and how Google's API infrastructure words a rate limit and a location. Our choice: the EIDs, the names of rate
limits, and every ErrorInfo whose domain is tpu.googleapis.com.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from infra.emulators.rpc_errors import Code as Code
from infra.emulators.rpc_errors import RpcError
from infra.emulators.rpc_errors import RpcStatus as RpcStatus

_SERVICE = "tpu.googleapis.com"
_INFRASTRUCTURE = "googleapis.com"  # the domain of refusals that every Google API shares


class ApiError(RpcError):
    """reason and metadata: of an ErrorInfo of the TPU API itself. details: other than that one, as JSON."""

    def __init__(
        self, code: Code, message: str, reason: str = "", details: Sequence[dict[str, Any]] = (), **metadata: str
    ) -> None:
        super().__init__(code, message, [_error_info(reason, _SERVICE, **metadata)] if reason else details)


def _error_info(reason: str, domain: str, **metadata: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": reason,
        "domain": domain,
        "metadata": {"service": _SERVICE, **metadata},
    }


def over_quota(project_number: str, quota: str, limit: int, where: str) -> ApiError:
    """Too many chips, as seen in 2025-08: a QuotaFailure and no ErrorInfo. `where` is `zone Z` or `region R`."""
    description = f"Quota '{quota}' exhausted. Limit {limit} in {where}"
    failure: dict[str, Any] = {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"subject": f"project:{project_number}", "description": description}],
    }
    message = f"Quota limit '{quota}' has been exceeded. Limit: {limit} in {where}."
    return ApiError(Code.RESOURCE_EXHAUSTED, message, details=[failure])


def too_many_calls(project_number: str) -> ApiError:
    """Too many calls a minute, as Google's API infrastructure says it of any API. The limit's name is our choice."""
    message = (
        "Quota exceeded for quota metric 'Requests' and limit 'Requests per minute' of service "
        f"'{_SERVICE}' for consumer 'project_number:{project_number}'."
    )
    info = _error_info(
        "RATE_LIMIT_EXCEEDED",
        _INFRASTRUCTURE,
        consumer=f"projects/{project_number}",
        quota_limit="DefaultRequestsPerMinutePerProject",
        quota_limit_value="600",
        quota_location="global",
        quota_metric=f"{_SERVICE}/default",
    )
    return ApiError(Code.RESOURCE_EXHAUSTED, message, details=[info])


def no_such_location(project_number: str, zone: str) -> ApiError:
    """A zone that does not exist, or that the project may not use: Google's APIs do not tell which."""
    message = f"Permission denied on 'locations/{zone}' (or it may not exist)."
    consumer = f"projects/{project_number}"
    info = _error_info("LOCATION_POLICY_VIOLATED", _INFRASTRUCTURE, consumer=consumer, location=zone)
    return ApiError(Code.PERMISSION_DENIED, message, details=[info])


def not_in_zone(accelerator: str, zone: str) -> ApiError:
    """An accelerator type that the zone does not have, at the call."""
    sentence = f"Cloud TPU received a bad request. the accelerator {accelerator} was not found in zone {zone}"
    return ApiError(Code.INVALID_ARGUMENT, _with_eid(sentence))


def no_capacity(zone: str) -> ApiError:
    sentence = (
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where Cloud TPU Nodes are '
        "offered (see https://cloud.google.com/tpu/docs/regions)"
    )
    return ApiError(Code.RESOURCE_EXHAUSTED, _with_eid(sentence))


def reservation_full() -> ApiError:
    sentence = "Insufficient reserved capacity. Contact customer support to increase your reservation."
    return ApiError(Code.RESOURCE_EXHAUSTED, _with_eid(sentence))


def no_reservation() -> ApiError:
    """No such reservation; also said of on-demand chips in a zone that has chips in reservations only."""
    return ApiError(Code.NOT_FOUND, "Reservation not found")


def not_found(name: str) -> ApiError:
    return ApiError(Code.NOT_FOUND, f"Resource '{name}' was not found.", "RESOURCE_NOT_FOUND", resource=name)


def _with_eid(sentence: str) -> str:
    """The sentence with an error id as support asks for it; here the same sentence always has the same id."""
    return f"{sentence} [EID: 0x{hashlib.sha256(sentence.encode()).hexdigest()[:16]}]"
