"""`openprior figures` and `replicates`: any quantity with its interval, and tables for analyses of one's own."""

from pathlib import Path
from typing import Annotated

import typer

from openprior.command_line.options import Json, Out
from openprior.command_line.result_files import (
    Folder,
    about,
    conditions,
    explain,
    file_format,
    named_labels,
    warn_if_seeded,
    write_file,
    written,
)
from openprior.command_line.terminal import print_json, print_table, say
from openprior.errors import OptionError

__all__ = ["add_to"]

_SHOWN = 60
"""Groups that are printed."""
_MOST_FILES = 1000


def add_to(app: typer.Typer) -> None:
    """Put the commands on the list."""
    app.command(epilog="Example: openprior figures release mean --of income --by sex,region")(figures)
    app.command(epilog="Example: openprior replicates release -k 20 -o replicates")(replicates)


def figures(
    release: Folder,
    what: Annotated[str, typer.Argument(help="count | share | mean | sum | quantile | median | ratio")],
    of: Annotated[
        str | None, typer.Option(help="The column it is of; two for a ratio, as income,hours.")
    ] = None,
    by: Annotated[str | None, typer.Option(help="Groups: columns or levels, as sex,region.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=LABEL, or COLUMN=LABEL|LABEL; a number picks its bin; repeatable."),
    ] = None,
    value: Annotated[
        list[str] | None, typer.Option(help="Value that a share is of; repeatable; default: each by itself.")
    ] = None,
    q: Annotated[float | None, typer.Option("--q", help="Which quantile, such as 0.9.")] = None,
    compare: Annotated[
        str | None, typer.Option(help="Every group beside one of them: difference | ratio")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Which one, as COLUMN=LABEL for each of --by; default: the first."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File to write: .csv or .parquet.", readable=False)
    ] = None,
    json: Json = False,
) -> None:
    """Any quantity by group, with 95 % intervals: counts, shares, means, sums, quantiles, ratios. Costs nothing.

    Basis 'calibrated': of all groups of about this size, 95 in 100 intervals hold,
    but nothing is promised of one that is picked because it looks odd.
    'none': nothing can be said of how far it is off; a line below says why.
    """
    import openprior as op
    from openprior.releases.answers import asked_columns
    from openprior.releases.estimates import remarks_on, why_none

    format = None if out is None else file_format(out)
    if (what == "quantile") != (q is not None):
        raise OptionError("--q says which quantile, such as 0.9; give it with quantile, and only there")
    opened = op.open_release(release)
    schema = opened.schema
    table = opened.estimate(
        what,
        None if of is None else asked_columns(of, schema),
        by=() if by is None else asked_columns(by, schema),
        where=conditions(where, schema) if where else None,
        value=value or None,
        q=q,
        compare=compare,
        against=named_labels("--against", against) if against else None,
    )
    if out is not None and format is not None:
        write_file(table, out, format)
    if json:
        asked = {"what": what, "of": of, "by": by, "where": where, "value": value, "q": q}
        asked |= {
            "compare": compare,
            "against": against,
            "no_interval": why_none(table),
            "remarks": remarks_on(table),
        }
        print_json({**about(opened), **asked, "figures": table.to_pylist(), **written(out)})
        return
    warn_if_seeded(opened)
    if out is not None:
        say(f"wrote {out}: {table.num_rows:,} figures")
        for reason in why_none(table):
            say(f"no interval: {reason}")
        for remark in remarks_on(table):
            say(remark)
        return
    shown = [[_cell(v) for v in row.values()] for row in table.slice(0, _SHOWN).to_pylist()]
    print_table(_title(what, of, by, where, value, q, compare), table.column_names, shown)
    if table.num_rows > _SHOWN:
        say(f"and {table.num_rows - _SHOWN:,} more; -o FILE or --json has all")
    if what in ("mean", "sum", "median", "quantile", "ratio"):
        say("missing and other values are left out; inside bins, numbers are those of released rows")
    for remark in remarks_on(table):
        say(remark)
    explain(table, why_none(table))


def replicates(
    release: Folder,
    out: Out,
    k: Annotated[int, typer.Option("-k", "--count", help="How many.")] = 20,
    format: Annotated[str, typer.Option(help="Of the files: parquet | csv")] = "parquet",
    seed: Annotated[int | None, typer.Option(help="For the same tables again; they stay as private.")] = None,
    json: Json = False,
) -> None:
    """Synthetic tables that differ as the release is uncertain, for analyses of your own. Costs nothing.

    Make the same analysis of each, and put the results together with op.combine.
    """
    import openprior as op
    from openprior.given import choice
    from openprior.releases.table_files import FORMATS, check_format, write_table
    from openprior.whole import appearing, fresh

    folder = fresh(out)
    choice("format", format, *FORMATS)
    if k > _MOST_FILES:
        raise OptionError(f"k ({k:,}) is too many; use at most {_MOST_FILES:,}")
    opened = op.open_release(release)
    check_format(format, opened.schema)
    made = opened.replicates(k, seed)
    names = [f"replicate-{i + 1:0{len(str(k))}}.{format}" for i in range(k)]
    with appearing(folder) as draft:
        for name, table in zip(names, made, strict=True):
            write_table(table, draft / name, format)
    if json:
        print_json({**about(opened), "rows": made[0].num_rows, "files": names, **written(out)})
        return
    warn_if_seeded(opened)
    say(f"wrote {out}: {k} replicates of {made[0].num_rows:,} rows")


def _title(
    what: str,
    of: str | None,
    by: str | None,
    where: list[str] | None,
    value: list[str] | None,
    q: float | None,
    compare: str | None,
) -> str:
    quantity = " ".join(
        [
            f"Estimated {what}",
            *([f"{q:g}"] if q is not None else []),
            *([f"of {of}"] if of else []),
            *([f"being {' or '.join(value)}"] if value else []),
            *([f"by {by}"] if by else []),
            *([f"where {' and '.join(where)}"] if where else []),
        ]
    )
    return f"{quantity}, {compare} to one group" if compare else quantity


def _cell(value: object) -> str:
    """Numbers with four digits at least: a figure may be a share or a sum of money."""
    if value is None:
        return ""
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
