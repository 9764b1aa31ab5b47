"""What commands that ask a release have in common: conditions in words, files that appear whole, what a basis means."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openprior.command_line.options import check_new
from openprior.command_line.terminal import say
from openprior.display import how_many
from openprior.errors import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.releases.result import Release
    from openprior.schema.base import Schema

__all__ = [
    "Folder",
    "about",
    "conditions",
    "explain",
    "file_format",
    "filling_file",
    "named_labels",
    "warn_if_seeded",
    "write_file",
    "written",
]

Folder = Annotated[Path, typer.Argument(help="A release folder.", readable=False)]
_FORMATS = {".csv": "csv", ".parquet": "parquet"}
_BASES = {
    "measured": "measured: the interval rests on noisy counts of just this number; 95 in 100 hold the true one",
    "calibrated": "calibrated: it rests on how wrong answers of about this size were found to be; 95 in 100 of them "
    "hold, but nothing is promised of one that is picked because it looks odd",
    "model": "model: only the model's own word, which may be wrong, so there is no interval",
    "exact": "exact: the number of rows is public; or it is a group beside itself",
    "none": "none: nobody can say how far it is off",
}
"""By what `basis` says."""


def explain(table: "pa.Table", why_none: Sequence[str] = ()) -> None:
    """A line for each basis that occurs, and one if estimates lie outside their own intervals; `why_none`: reasons for
    what has none."""
    some = set(table["basis"].to_pylist())
    for basis, words in _BASES.items():
        if basis in some:
            say(f"none: {'; '.join(why_none)}" if basis == "none" and why_none else words)
    rows = table.select(["estimate", "low", "high"]).drop_null().to_pylist()
    outside = sum(not row["low"] <= row["estimate"] <= row["high"] for row in rows)
    if outside:
        say(
            f"{how_many(outside, 'estimate')} outside the interval: that is of measured counts alone, while an "
            "estimate draws on all that was measured; if the interval is right, about one in twenty lies outside"
        )


def conditions(texts: list[str], schema: "Schema") -> dict[str, Any]:
    """What --where says, by column."""
    from openprior.questions.query_text import split_words, unquoted

    found: dict[str, Any] = {}
    for name, labels in _pairs("--where", texts, "LABEL or COLUMN=LABEL|LABEL"):
        if name in found:
            raise OptionError(f"--where has '{name}' twice; write {name}=LABEL|LABEL for several labels")
        known = _labels(name, schema)
        found[name] = labels if labels in known else [unquoted(label) for label in split_words(labels, "|")]
    return found


def named_labels(option: str, texts: list[str]) -> dict[str, str]:
    """One label by column, as --against has them."""
    from openprior.questions.query_text import unquoted

    found: dict[str, str] = {}
    for name, label in _pairs(option, texts, "LABEL"):
        if name in found:
            raise OptionError(f"{option} has '{name}' twice; one label is enough")
        found[name] = unquoted(label)
    return found


def _pairs(option: str, texts: list[str], form: str) -> Iterator[tuple[str, str]]:
    """Columns and what is said of them."""
    from openprior.questions.query_text import first_word, unquoted

    for text in texts:
        name, labels = first_word(text, "=")
        name = unquoted(name)
        if not name or not labels:
            raise OptionError(f"{option} '{text}' is not understood; write COLUMN={form}")
        yield name, labels


def _labels(name: str, schema: "Schema") -> tuple[str, ...]:
    if name in schema.levels:
        return schema.levels[name].labels
    return schema[name].labels if name in schema.names else ()


def file_format(out: Path) -> str:
    """Before any work: the format that a file's name asks for, where a file can be."""
    if out.suffix.lower() not in _FORMATS:
        raise OptionError(f"the name of {out} says no format; end it in .csv or .parquet")
    check_new(out)
    return _FORMATS[out.suffix.lower()]


def write_file(table: "pa.Table", out: Path, format: str) -> None:
    """A table as a file."""
    from openprior.releases.table_files import write_table

    with filling_file(out) as draft:
        write_table(table, draft, format)


@contextlib.contextmanager
def filling_file(out: Path) -> Iterator[Path]:
    """A draft of a file; an error of the disk in one line."""
    from openprior.whole import filling

    try:
        with filling(out) as draft:
            yield draft
    except OSError as error:
        raise OptionError(
            f"cannot write {out}: {error.strerror}; free space or choose another place"
        ) from None


def about(opened: "Release") -> dict[str, Any]:
    """What a machine has to know of a release's privacy beside its numbers."""
    return {"noise": opened.certificate.noise}


def written(out: Path | None) -> dict[str, str]:
    """Where it is, for a machine."""
    return {} if out is None else {"out": str(out)}


def warn_if_seeded(opened: "Release") -> None:
    """Of a release that must not be published."""
    if not opened.certificate.is_private:
        say(f"{opened.certificate.noise}: do not publish what comes from this release", err=True)
