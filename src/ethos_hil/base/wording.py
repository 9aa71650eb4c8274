"""Numbers and names in words, for the terminal, the report and other documents."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

TIMES = "\N{MULTIPLICATION SIGN}"


def amount(value: float | str | None) -> str:
    """Return a number with commas, or text as it is; "" for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.1f}"


def count_of(count: int, noun: str, plural: str = "") -> str:
    """Return "1 test" or "2 tests"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def change(ratio: float | None) -> str:
    """Return a ratio as a change in percent: "+2.5 %"; "" for None and for none."""
    if ratio is None or ratio == 1:
        return ""
    percent = (ratio - 1) * 100
    return (
        f"{percent:+,.0f} %"
        if abs(percent) >= 100
        else f"{percent:+.2g} %"
        if abs(percent) < 10
        else f"{percent:+.1f} %"
    )


def share(part: float, whole: float) -> str:
    """Return a part in percent; "" where there is no whole."""
    return f"{part / whole:.1%}" if whole else ""


def percent(part: float | None) -> str:
    """Return the number of a part in percent, with two digits at least below ten; "" for None."""
    if part is None:
        return ""
    return f"{100 * part:.0f}" if part >= 0.0995 or not part else f"{100 * part:.2g}"


def duration(seconds: float) -> str:
    """Return seconds in the unit that people use: "1.83 ms", "39.9 us"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= 0.9995 * size:  # what is rounded up to it has its unit
            return f"{seconds / size:.3g} {unit}" if seconds < 999.5 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def per_second(rate: float) -> str:
    """Return inferences per second with three digits: "25,000", "0.42"."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def exact(value: float) -> str:
    """Return a number as text from which the same one is read; a whole one without a point."""
    return str(int(value)) if value == int(value) else repr(value)


def memory_size(count: float) -> str:
    """Return bytes with a unit that suits them."""
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:,.1f} {unit}".replace(".0 ", " ")
    return f"{count:,.0f} B"


def moment(text: str) -> str:
    """Return a time as it is read: "25 November 2026, 10:02 UTC"; the text itself where it is not a time."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return text
    instant = instant.astimezone(UTC) if instant.tzinfo is not None else instant
    return f"{instant.day} {instant:%B %Y}, {instant:%H:%M} UTC"


def day(when: datetime) -> str:
    """Return a day as it is read: "25 November 2026"."""
    return f"{when.day} {when:%B %Y}"


def list_of(items: Iterable[str], most: int = 3) -> str:
    """Return the first items, and how many more there are."""
    words = list(items)
    rest = len(words) - most
    return ", ".join(words[:most]) + (f" and {rest:,} more" if rest > 0 else "")


def short_operator(name: str) -> str:
    """Return an operator's name without what all of them have: "aten.conv2d.default" is "conv2d"."""
    return (
        name.removeprefix("aten.").removesuffix(".default").removeprefix("quantized_decomposed::").removesuffix(".out")
    )
