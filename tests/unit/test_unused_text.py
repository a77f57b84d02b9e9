"""Which prepared texts of a bucket may go: those that nothing names, once they are old, manifest first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from infra.artifacts.store import Entry
from infra.runs.unused_text import unused_texts

NOW = datetime(2026, 1, 10, tzinfo=UTC)
OLD, YOUNG = NOW - timedelta(days=3), NOW - timedelta(hours=3)
DAY = timedelta(days=1)


def content(number: int) -> str:
    return f"{number:016x}"


def text(number: int, updated: datetime = OLD, size: int = 10) -> list[Entry]:
    files = ("heldout-0.array_record", "manifest.json", "train-0.array_record")
    return [Entry(f"{content(number)}/{file}", size, updated) for file in files]


def test_what_is_named_and_what_is_young_stays_and_the_largest_is_said_first() -> None:
    entries = [*text(1), *text(2, size=20), *text(3, YOUNG), *text(4)]
    gone = unused_texts(entries, {content(4)}, NOW, DAY)
    assert [(each.content, each.bytes) for each in gone] == [(content(2), 60), (content(1), 30)]
    assert [entry.key.partition("/")[2] for entry in gone[0].entries] == [
        "manifest.json",  # first, so that what has one is whole
        "heldout-0.array_record",
        "train-0.array_record",
    ]


def test_one_young_file_keeps_all_of_its_text() -> None:
    """A push that was cut short goes on; an `up` that finds text renews its manifest alone."""
    manifest = f"{content(1)}/manifest.json"
    entries = [Entry(each.key, each.size, YOUNG if each.key == manifest else OLD) for each in text(1)]
    assert unused_texts(entries, set(), NOW, DAY) == []


def test_what_is_no_prepared_text_is_never_touched() -> None:
    others = ("README", "corpus/a.txt", f"{content(1)}", f"{content(1)}/deeper/file", "0123/manifest.json")
    assert unused_texts([Entry(key, 1, OLD) for key in others], set(), NOW, DAY) == []


@given(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
def test_no_text_that_is_named_or_young_loses_a_file(there: set[int], named: set[int], young: set[int]) -> None:
    entries = [entry for each in there for entry in text(each, YOUNG if each in young else OLD)]
    gone = {each.content for each in unused_texts(entries, set(map(content, named)), NOW, DAY)}
    assert gone == set(map(content, there - named - young))
