"""Tables that the command prints: no figure is ever cut; where a terminal is narrow, whole columns are left out.

Columns are a title and its cells each, in order. Refuses to know what is in them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

WIDE = 250  # characters where no terminal sets them

type Columns = dict[str, Sequence[str]]


def columns(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Columns:
    """Of rows that have a cell for each title."""
    kept = list(rows)
    return {title: [row[at] for row in kept] for at, title in enumerate(titles)}


def narrow(given: Columns, dispensable: Iterable[str], width: int) -> tuple[Columns, list[str]]:
    """The columns for which there is room, and which titles were left out for it, in the order of `dispensable`."""
    kept, left_out = dict(given), list[str]()
    for title in [title for title in dispensable if title in given]:
        if sum(max(map(len, (each, *cells))) + 2 for each, cells in kept.items()) - 2 <= width:
            break
        del kept[title]
        left_out.append(title)
    return kept, left_out


def table(given: Columns, right: Collection[str] = ()) -> Table:
    """`right`: titles of figures."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in given:
        made.add_column(title, justify="right" if title in right else "left", no_wrap=True)
    for row in zip(*given.values(), strict=True):
        made.add_row(*map(escape, row))
    return made


def markdown(cells: Iterable[str]) -> str:
    """A row of a table in Markdown, where a `|` would end its cell."""
    return f"| {' | '.join(cell.replace('|', '\\|') for cell in cells)} |"


def plain(given: Columns, right: Collection[str] = (), dispensable: Iterable[str] = ()) -> str:
    """As text: all of it where standard output is no terminal, else what fits, and what was left out."""
    terminal = Console()
    left_out: list[str] = []
    if terminal.is_terminal:
        given, left_out = narrow(given, dispensable, terminal.width)
    console = Console(width=WIDE, force_terminal=False, highlight=False)
    with console.capture() as captured:
        console.print(table(given, right))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    return "\n".join([*lines, *([f"left out of a narrow terminal: {', '.join(left_out)}"] if left_out else [])])
