"""Whose a request or a node of the Cloud TPU API is, by its labels; and what is said of one that is not to be touched.

Every state of a stack has an identity (its guard keeps it), which is a label of what it makes. A thing is this state's
where it carries that identity, also if a killed `up` never wrote it down, or where the state knows the very request.
The owner's label decides nothing: a stack file is committed, so a team shares its `owner`. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from infra import durations
from infra.names import MADE_LABEL, OWNER_LABEL, STACK_LABEL, STATE_LABEL

TAKEN_LABEL = "slipway-taken"  # in memory alone: the state that has taken a request over, as its nodes say


@dataclass(frozen=True)
class StackClaim:
    """What one state of a stack may call its own.

    identity: the state's own; a state of 0.1.0 has none and calls its own only what it knows. made: the request that it
    knows, empty where it knows none. take_over: which request the stack file asks to have, as `holding` writes it.
    """

    stack: str  # the label
    identity: str = ""
    made: str = ""
    take_over: str = ""

    def owns(self, labels: Mapping[str, str]) -> bool:
        """Whether it is this state's: known to it and not taken over since, or asked for by an `up` that was killed."""
        if labels.get(STACK_LABEL, "") != self.stack:
            return False
        if TAKEN_LABEL not in labels and self.made and made_of(labels) == self.made:
            return True
        return bool(self.identity) and holder_of(labels) == self.identity

    def wants(self, labels: Mapping[str, str]) -> bool:
        """Whether it is another state's that the stack file asks to take over."""
        asked = bool(self.take_over) and holding(labels) == self.take_over
        return asked and labels.get(STACK_LABEL, "") == self.stack and not self.owns(labels)


def holder_of(labels: Mapping[str, str]) -> str:
    """The identity of the state that has it; empty where 0.1.0 has made it."""
    return labels.get(TAKEN_LABEL) or labels.get(STATE_LABEL, "")


def holding(labels: Mapping[str, str]) -> str:
    """Which request it is and who has it: true of no other request, nor of this one once another state has it."""
    return "-".join(part for part in (holder_of(labels), made_of(labels)) if part)


def with_taker(labels: Mapping[str, str], of_node: Mapping[str, str]) -> dict[str, str]:
    """A request's own labels, which nobody can change, with TAKEN_LABEL where its node names another state."""
    holder = of_node.get(STATE_LABEL, "")
    taken = bool(holder) and holder != labels.get(STATE_LABEL, "")
    return {**labels, TAKEN_LABEL: holder} if taken else dict(labels)


def made_of(labels: Mapping[str, str]) -> str:
    """Which request it is; the same wherever it was moved to, and empty where Slipway has not made it."""
    return labels.get(MADE_LABEL, "").partition("-")[0]


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
    if collection == "nodes":
        return f"gcloud compute tpus tpu-vm delete {identifier} --zone={zone} --project={project}"
    return f"gcloud compute tpus queued-resources delete {identifier} --zone={zone} --project={project} --force"


OTHER_NAME = "give this stack another name (`slipway stack new` with --variant writes one)"


def refusal(name: str, labels: Mapping[str, str], state: str, create_time: str, claim: StackClaim) -> str:
    """Why something of that name is left alone, and what resolves it."""
    described = f"{name} is {state} and {age(create_time)}"
    stack, owner = labels.get(STACK_LABEL, ""), labels.get(OWNER_LABEL, "")
    end = f"if it may go: {delete_command(name)}"
    if stack != claim.stack:
        whose = f"by stack {stack}" + (f" of {owner}" if owner else "") if stack else "without Slipway"
        return f"{described}, {whose}; {OTHER_NAME}, or {end}"
    whose = f"by {owner or 'nobody that its labels name'} from another clone or backend"
    if claim.wants(labels):
        return (
            f"{described}, {whose}; take_over asks for it, but only what is ACTIVE and on this stack file's terms can "
            f"be taken over; wait for it or write its terms, go on with it there, or {end}"
        )
    return (
        f"{described}, {whose}, and this state does not know it; go on with it there; to have both, {OTHER_NAME}; to "
        f"have it here instead, write `slipway:take_over: '{holding(labels)}'` into the stack file; {end}"
    )


def taken_over(name: str, labels: Mapping[str, str], create_time: str) -> str:
    """What is said when a request is taken from another state."""
    owner = labels.get(OWNER_LABEL, "") or "nobody that its labels name"
    return f"{name} is taken over, {age(create_time)} by {owner} from another clone or backend"
