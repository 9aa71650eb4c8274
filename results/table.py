"""A table of results: its columns are said once, and it is written as text, HTML, CSV and Parquet.

What is said of a column, its name and how its value is read from a row, is the same for all of them. CSV and Parquet
have values as they are, with all digits; text and HTML have them as people read them.
"""

from __future__ import annotations

import csv
import html
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.plain_text import amount, escape, valid
from ethos_hil.results.compaction.database import literal

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

Row = TypeVar("Row")
TEXT, INTEGER, NUMBER = "VARCHAR", "BIGINT", "DOUBLE"
"""DuckDB's types of most columns."""


class Fit(StrEnum):
    """How cells fit a terminal that is too narrow for them."""

    NUMBER = "number"
    """Not at all, and they end below one another."""
    TITLED_NUMBER = "titled number"
    """The same, below a title that may break."""
    WHOLE = "whole"
    """Not at all."""
    CLIPPED = "clipped"
    """They lose their end."""
    FOLDED = "folded"
    """They break anywhere."""
    WORDS = "words"
    """They break between words."""


_LOOKS: Mapping[Fit, Mapping[str, Any]] = MappingProxyType({
    Fit.NUMBER: {"justify": "right", "no_wrap": True},
    Fit.TITLED_NUMBER: {"justify": "right"},
    Fit.WHOLE: {"no_wrap": True},
    Fit.CLIPPED: {"no_wrap": True, "overflow": "ellipsis"},
    Fit.FOLDED: {"overflow": "fold"},
    Fit.WORDS: {},
})  # fmt: skip


def _shown(value: Any) -> str | Text:
    """Return a value as people read it."""
    return amount(value) if value is None or isinstance(value, int | float) else value


@dataclass(frozen=True)
class TableColumn(Generic[Row]):
    """A column.

    Attributes:
        name: in files, and its title for people.
        value: returns the value of a row; None where it has none.
        kind: DuckDB's type of its values.
        fit: of its cells on a terminal.
        show: returns a value as people read it.
        total: what stands below all cells; "" for nothing.
        most: the most characters that it takes on a terminal; None for no limit.
    """

    name: str
    value: Callable[[Row], Any]
    kind: str = TEXT
    fit: Fit = Fit.WORDS
    show: Callable[[Any], str | Text] = _shown
    total: str = ""
    most: int | None = None


@dataclass(frozen=True)
class ResultTable(Generic[Row]):
    """Columns and rows.

    Attributes:
        columns: in order.
        rows: what the columns read.
    """

    columns: Sequence[TableColumn[Row]]
    rows: Sequence[Row]

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the values of each row by the names of columns, for JSON."""
        return ({column.name: column.value(row) for column in self.columns} for row in self.rows)

    def to_csv(self) -> str:
        """Return the table as CSV; see `as_csv`."""
        names = [column.name for column in self.columns]
        return as_csv(names, ([column.value(row) for column in self.columns] for row in self.rows))

    def to_parquet(self) -> bytes:
        """Return the table as a Parquet file; see `as_parquet`."""
        return as_parquet({column.name: column.kind for column in self.columns}, self.records())

    def to_text(self, top: int | None = None, *, rest: Sequence[str] = (), **looks: Any) -> Table:
        """Return the table for a terminal.

        Args:
            top: the most rows to show.
            rest: cells of a last row, in place of one that says how many more there are than `top`.
            looks: of the table, as `ethos_hil.base.console.table_of` takes them.
        """
        from rich.table import Column  # late: rich takes 0.1 s, and files do not need it

        from ethos_hil.base.console import add_row, plain, table_of

        titles = [Column(plain(column.name), column.total, max_width=column.most, **_LOOKS[column.fit])
                  for column in self.columns]  # fmt: skip
        table = table_of(*titles, footer=any(column.total for column in self.columns), **looks)
        for row in self.rows[:top]:
            add_row(table, *(column.show(column.value(row)) for column in self.columns))
        if not rest and top is not None and len(self.rows) > top:
            rest = (f"and {len(self.rows) - top:,} more",)
        if rest:
            add_row(table, *rest)
        return table

    def to_html(self) -> str:
        """Return the table as an element of a page, with all text escaped."""
        heads = "".join(f"<th>{_html(column.name)}</th>" for column in self.columns)
        rows = "".join(
            f"<tr>{''.join(f'<td>{_html(str(column.show(column.value(row))))}</td>' for column in self.columns)}</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"


_FORMULA = re.compile("[=+\\-@\uff1d\uff0b\uff0d\uff20]")
"""How a cell starts that a spreadsheet takes for a formula (OWASP, CSV Injection): =, +, -, @, and their wide forms."""


def as_csv(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV, with all digits. Control characters are escapes, and a text that a spreadsheet would compute
    has an apostrophe before it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def as_parquet(columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as a Parquet file; the same rows make the same bytes.

    Args:
        columns: names, with DuckDB's types.
        rows: by names of columns, as JSON has them.
    """
    import duckdb  # late: it takes 0.1 s

    types = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
    # One thread, so that the same rows make the same bytes. Nothing is fetched from a network.
    settings: dict[str, Any] = {"threads": 1, "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    with duckdb.connect(config=settings) as database, tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        lines, table = Path(folder, "rows.jsonl"), Path(folder, "rows.parquet")
        lines.write_text("".join(f"{json.dumps(_valid(row), allow_nan=False)}\n" for row in rows), encoding="utf-8")
        database.execute(f"CREATE TABLE row_table ({types})")
        named = ", ".join(f"'{name}': '{kind}'" for name, kind in columns.items())
        form = f"format = 'newline_delimited', hive_partitioning = false, columns = {{{named}}}"
        database.execute(f"INSERT INTO row_table FROM read_json(?, {form})", [literal(lines)])
        database.table("row_table").write_parquet(str(table), compression="zstd")
        return table.read_bytes()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return "" if value is None else repr(value) if isinstance(value, float) else value
    text = escape(value, keep="")
    return f"'{text}" if _FORMULA.match(text) else text


def _html(text: str) -> str:
    return html.escape(escape(text))


def _valid(value: Any) -> Any:
    """Return a value whose texts are such as UTF-8 can have."""
    if isinstance(value, str):
        return valid(value)
    if isinstance(value, Mapping):
        return {valid(name): _valid(child) for name, child in value.items()}
    return [_valid(child) for child in value] if isinstance(value, list | tuple) else value
