"""What a result shows of itself: a short table, as text where it is printed and as HTML in a notebook.

A result says in `sheet` what a person wants to see first; how it is laid out, cut and escaped is decided here, once.
Names of columns and labels may be anything: in HTML they are escaped, in text control characters become question marks.

>>> print(Sheet("2 columns", ("name", "values"), (("age", "32"), ("sex", "2"))).text())
2 columns
name  values
age       32
sex        2
"""

import html
from dataclasses import dataclass

__all__ = ["Sheet", "Shown", "harmless", "how_many", "listed", "plain"]

_ROWS, _WIDTH, _LAST, _NOTE = 16, 40, 80, 320
"""Rows, letters of a cell, of a cell at the end of its row, and of a note that are shown at most."""
_STYLE = "text-align:{};padding:.2em .8em;vertical-align:top;white-space:{}"
_NUMERIC = "0123456789-<>~±.,%+eε "
_WARNING = "font-weight:bold;color:#9b1c12;background:#fdeeec;padding:.3em .8em;margin:0 0 .4em"


@dataclass(frozen=True)
class Sheet:
    """A table with a title above it, warnings where it must not be trusted or published, and notes below."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    """To be read before the numbers, a line each and whole."""

    def text(self) -> str:
        """As lines of text, at most some 25 of them."""
        most = [_WIDTH] * (len(self.headings) - 1) + [_LAST]
        shown = [
            tuple(_line(cell, room) for cell, room in zip(row, most, strict=True))
            for row in (self.headings, *self.rows[:_ROWS])
        ]
        widths = [max(map(len, cells)) for cells in zip(*shown, strict=True)]
        right = self._numeric()
        lines = [
            "  ".join(
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ).rstrip()
            for row in shown
            if any(row)
        ]
        notes = [_line(note, _NOTE) for note in self._notes()]
        warnings = [_line(warning, len(warning)) for warning in self.warnings]
        return "\n".join([_line(self.title, _NOTE), *warnings, *lines, *notes])

    def html(self) -> str:
        """As HTML, without a script and without anything to load."""
        right = self._numeric()
        parts = ["<div>"]
        parts += [f'<p style="{_WARNING}">{html.escape(warning)}</p>' for warning in self.warnings]
        parts.append(f"<p><b>{html.escape(self.title)}</b></p><table>")
        if any(self.headings):
            parts.append(f"<thead>{_row('th', self.headings, right)}</thead>")
        parts.append("<tbody>")
        parts += [_row("td", row, right) for row in self.rows[:_ROWS]]
        parts.append("</tbody></table>")
        parts += [f"<p>{html.escape(note)}</p>" for note in self._notes()]
        return "".join([*parts, "</div>"])

    def _notes(self) -> tuple[str, ...]:
        left = len(self.rows) - _ROWS
        return (f"… and {left:,} more", *self.notes) if left > 0 else self.notes

    def _numeric(self) -> list[bool]:
        """Which columns are numbers, and go to the right; the first never does."""
        shown = self.rows[:_ROWS]
        return [
            i > 0 and all(set(row[i]) <= set(_NUMERIC) for row in shown) for i in range(len(self.headings))
        ]


class Shown:
    """A result that shows itself by its sheet: `repr` and `print` as text, notebooks as HTML.

    A dataclass that is one says `repr=False`, because the repr that dataclasses make has everything in it.
    """

    def sheet(self) -> Sheet:
        """What a person wants to see of it first."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.sheet().text()

    def _repr_html_(self) -> str:
        return self.sheet().html()


def listed(names: tuple[str, ...] | list[str], most: int = 6) -> str:
    """Some names, and how many more there are.

    >>> listed(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def how_many(number: int, thing: str) -> str:
    """A number of things, one or several.

    >>> how_many(1, "table"), how_many(2000, "table")
    ('1 table', '2,000 tables')
    """
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def plain(text: str) -> str:
    """On one line, without what a terminal would obey.

    >>> plain("age\\n\\x1b[2J in years")
    'age ?[2J in years'
    """
    return harmless(" ".join(text.split()))


def harmless(text: str) -> str:
    """With its spaces, and question marks for what is no letter."""
    return "".join(c if c.isprintable() else "?" for c in text)


def _row(tag: str, cells: tuple[str, ...], right: list[bool]) -> str:
    styles = [_STYLE.format("right", "nowrap") if r else _STYLE.format("left", "normal") for r in right]
    return "".join(
        [
            "<tr>",
            *(
                f'<{tag} style="{style}">{html.escape(cell)}</{tag}>'
                for cell, style in zip(cells, styles, strict=True)
            ),
            "</tr>",
        ]
    )


def _line(text: str, most: int) -> str:
    """Plain, and cut where it is too long."""
    line = plain(text)
    return line if len(line) <= most else line[: most - 1] + "…"
