"""Whose a leftover is, where the labels of two owners read the same."""

from __future__ import annotations

import pytest

from infra.names import OWNER_LABEL, STATE_LABEL, label_value, of_owner, owner_digest
from infra.targets.billed import Billed


def left(name: str, owner: str, state: str | None = None) -> Billed:
    labels = {OWNER_LABEL: label_value(owner)}
    identity = f"{owner_digest(owner)}-0123456789ab" if state is None else state
    return Billed(name, "s", "ACTIVE", tuple((labels | ({STATE_LABEL: identity} if identity else {})).items()))


DOT, DASH, OLD = left("dot", "a.b@x.com"), left("dash", "a-b@x.com"), left("old", "a.b@x.com", state="")
ADOPTED = left("known by its request", "a.b@x.com", state="0123456789ab")


@pytest.mark.parametrize("owner", ["a.b@x.com", "A.B@X.com "])
def test_an_owner_whose_label_only_reads_the_same_is_left_alone(owner: str) -> None:
    assert [each.name for each in of_owner([DOT, DASH, OLD, ADOPTED], owner)] == ["dot", "old", "known by its request"]
    assert of_owner([DASH], owner) == []


def test_a_label_is_taken_for_an_owner_where_it_is_one_owners() -> None:
    assert of_owner([DOT, OLD, left("other", "c@x.com")], "a-b-x-com") == [DOT, OLD]
    with pytest.raises(ValueError, match="2 owners have the label 'a-b-x-com'; give the owner as the stack file"):
        of_owner([DOT, DASH], "a-b-x-com")


def test_an_owner_that_is_its_own_label_is_that_owner() -> None:
    plain = left("plain", "a-b-x-com")
    assert of_owner([plain, DOT], "a-b-x-com") == [plain]
