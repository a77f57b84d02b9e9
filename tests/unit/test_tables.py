"""Tables of the command: a narrow terminal gets fewer columns, and no cut figure."""

from __future__ import annotations

import pytest

from infra.commands import tables

ROWS = tables.columns(("stack", "chips", "mesh", "quota"), [("v6e-32", "32", "fsdp 32 (ICI)", "Q" * 40)])


def test_what_matters_least_is_left_out_and_named() -> None:
    assert tables.narrow(ROWS, ("quota", "mesh"), 80) == (ROWS, [])
    kept, left_out = tables.narrow(ROWS, ("quota", "mesh"), 30)
    assert (list(kept), left_out) == (["stack", "chips", "mesh"], ["quota"])
    kept, left_out = tables.narrow(ROWS, ("of another table", "quota", "mesh"), 20)
    assert (list(kept), left_out) == (["stack", "chips"], ["quota", "mesh"])


def test_without_a_terminal_everything_is_there_and_figures_are_aligned() -> None:
    assert tables.plain(
        tables.columns(("a", "figure"), [("[x]", "1"), ("y", "22")]), right=("figure",)
    ).splitlines() == [
        "a    figure",
        "[x]       1",
        "y        22",
    ]


def test_a_narrow_terminal_is_told_what_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm")):  # rich takes standard output for a terminal
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "30")
    titles, cells, said = tables.plain(ROWS, dispensable=("quota", "mesh")).splitlines()
    assert (titles.split(), cells) == (["stack", "chips", "mesh"], "v6e-32  32     fsdp 32 (ICI)")
    assert said == "left out of a narrow terminal: quota"
    monkeypatch.setenv("COLUMNS", "200")
    assert "left out" not in tables.plain(ROWS, dispensable=("quota", "mesh"))
