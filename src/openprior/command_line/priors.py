"""`openprior prior` and `cache`: what is learnt from a public table once and used again."""

from pathlib import Path
from typing import Annotated

import typer

from openprior.command_line import options, reading_options
from openprior.command_line.options import Json, Quiet, check_new
from openprior.command_line.terminal import print_json, say
from openprior.display import how_many
from openprior.progress_shown import watching

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Put the commands on the list."""
    app.command(
        epilog="Example: openprior prior public.csv --schema survey.toml --workload 3 -o survey.prior"
    )(prior)
    app.command(epilog="Example: openprior cache --clear")(cache)


def prior(
    public: Annotated[str, typer.Argument(help="The public table; of a private one none may be made.")],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Prior file to write; must not exist.", readable=False)
    ],
    schema: options.Schema = None,
    workload: Annotated[str, typer.Option(help="What releases will ask for, as for 'release'.")] = "3",
    encoding: reading_options.Encoding = None,
    decimal: reading_options.Decimal = None,
    thousands: reading_options.Thousands = None,
    delimiter: reading_options.Delimiter = None,
    date_format: reading_options.DateFormat = None,
    null_values: reading_options.NullValues = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn from a public table once what 'release --prior' starts from. The file holds a copy of the public rows."""
    import openprior as op

    check_new(out)
    with watching(not quiet):
        made = op.fit_prior(
            public,
            schema=None if schema is None else op.Schema.load(schema),
            workload=workload,
            reading=reading_options.reading(
                encoding, decimal, thousands, delimiter, date_format, null_values
            ),
        )
    made.save(out)
    if json:
        facts = {"out": str(out), "rows": made.rows, "marginals": len(made.marginals)}
        print_json({**facts, **made.recorded, "schema": made.schema.hash})
        return
    say(
        f"wrote {out}: learnt from {how_many(made.rows, 'public row')}, of which it holds a copy, for "
        f"{how_many(len(made.marginals), 'marginal')}"
    )
    say(f"SHA-256: {made.sha256}")
    say(f"then: openprior release PRIVATE --prior {out} --epsilon … --delta … -o FOLDER")


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove every prior that is kept there.")] = False,
    json: Json = False,
) -> None:
    """Where priors of public tables are kept between releases, how many and how large; or remove them."""
    from openprior.models.prior.cache_folder import VARIABLE, cache_folder
    from openprior.models.prior.prior_cache import LIMIT, clear_cache, kept_files

    folder = cache_folder()
    removed = clear_cache(folder) if clear and folder is not None else 0
    files = [] if folder is None else kept_files(folder)
    size = sum(file.stat().st_size for file in files)
    if json:
        facts = {"folder": None if folder is None else str(folder), "priors": len(files), "bytes": size}
        print_json({**facts, "limit": LIMIT, "removed": removed})
        return
    if folder is None:
        say(f"the cache is off ({VARIABLE}); every release learns its prior anew")
        say(f"priors that were kept before are as they were: see and remove them with {VARIABLE} unset")
        return
    if clear:
        say(f"removed {how_many(removed, 'prior')} from {folder}")
    else:
        say(f"{folder}: {how_many(len(files), 'prior')}, {size / 1e6:.1f} of at most {LIMIT / 1e6:.0f} MB")
        say("each holds a copy of the rows of a public table; remove them with 'openprior cache --clear'")
        say(f"keep none: {VARIABLE}=off; elsewhere: {VARIABLE}=FOLDER")
