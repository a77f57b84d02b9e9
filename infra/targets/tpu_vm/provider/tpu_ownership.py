"""Whose a request or a node of the Cloud TPU API is, by its labels; and what is said of one that is not to be touched.

A thing is this state's where the state made it. Where the state does not know it, only its owner's own, and on the same
terms, is taken for what a killed `up` has left; deleting anything else that is alive is never right. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from infra import durations
from infra.names import OWNER_LABEL, STACK_LABEL

MADE_LABEL = "slipway-made"  # of a request: which one it is, and on which terms


@dataclass(frozen=True)
class StackClaim:
    """What one stack's state may call its own. `made` is the request it knows, empty where it knows none."""

    stack: str  # the label
    owner: str  # the label
    made: str = ""

    def knows(self, labels: Mapping[str, str]) -> bool:
        """Whether this state has made it."""
        return bool(self.made) and labels.get(STACK_LABEL, "") == self.stack and made_of(labels) == self.made

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Whether it is this state's, or the same owner's of the same stack."""
        same = (labels.get(STACK_LABEL, ""), labels.get(OWNER_LABEL, "")) == (self.stack, self.owner)
        return same or self.knows(labels)


def made_of(labels: Mapping[str, str]) -> str:
    """Which request it is; the same wherever it was moved to, and empty where Slipway has not made it."""
    return labels.get(MADE_LABEL, "").partition("-")[0]


def terms_of(labels: Mapping[str, str]) -> str:
    """The fingerprint of its terms."""
    return labels.get(MADE_LABEL, "").partition("-")[2]


def tail(name: str) -> str:
    """A name without its project, which the API writes as the id in one place and as the number in another."""
    return "/".join(name.split("/")[2:])


def age(create_time: str, now: datetime | None = None) -> str:
    """`made 3h ago`, of a time as RFC 3339."""
    if not create_time:
        return "made just now"
    seconds = int(((now or datetime.now(UTC)) - datetime.fromisoformat(create_time)).total_seconds())
    coarse = next((seconds // unit * unit for unit in (86_400, 3600, 60) if seconds >= unit), 0)
    return f"made {durations.text(coarse)} ago" if coarse else "made just now"


def delete_command(name: str) -> str:
    """What ends it by hand. name: of a request or a node, as the API writes it."""
    _, project, _, zone, collection, identifier = name.split("/")
    kind = "tpu-vm delete" if collection == "nodes" else "queued-resources delete"
    force = "" if collection == "nodes" else " --force"
    return f"gcloud compute tpus {kind} {identifier} --zone={zone} --project={project}{force}"


def refusal(name: str, labels: Mapping[str, str], state: str, create_time: str, claim: StackClaim) -> str:
    """Why something of that name is left alone, and what resolves it."""
    described = f"{name} is {state} and {age(create_time)}"
    stack, owner = labels.get(STACK_LABEL, ""), labels.get(OWNER_LABEL, "")
    command = delete_command(name)
    if stack != claim.stack:
        whose = f"by stack {stack}" + (f" of {owner}" if owner else "") if stack else "without Slipway"
        return f"{described}, {whose}; give this stack another `prefix`, or if that may go: {command}"
    if owner != claim.owner:
        return (
            f"{described}, by {owner or 'nobody that its labels name'}, who has a stack of this name too (this one is "
            f"{claim.owner}'s); ask them; to have both, give this stack another `prefix`; if theirs may go: {command}"
        )
    return (
        f"{described}, on other terms than this stack file's, and this state does not know it: another clone of yours "
        f"has made it, or an `up` that was killed; go on with it there, or if it may go: {command}"
    )
