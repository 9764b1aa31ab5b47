"""Queries from a file: TOML with a list `queries`, or CSV with one query per line and one column per condition."""

import csv
import tomllib
from pathlib import Path
from typing import Any

from openprior.errors import OptionError

__all__ = ["read_queries"]


def read_queries(path: Path) -> list[Any]:
    """The queries of a file, as texts or as mappings of columns to labels."""
    ending = path.suffix.lower()
    if ending not in (".toml", ".csv"):
        raise OptionError(f"queries from {path}: give a TOML or CSV file, by that ending")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise OptionError(f"there is no file {path} with queries; check the path") from None
    except OSError as error:
        raise OptionError(f"cannot read the queries in {path}: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise OptionError(f"the queries in {path} are not UTF-8; save the file as UTF-8") from None
    queries = _from_toml(text, path) if ending == ".toml" else _from_csv(text, path)
    if not queries:
        raise OptionError(
            f'{path} has no queries; write queries = [{{sex = "F"}}, "prefixes(age)"], or in a CSV one per line'
        )
    return queries


def _from_toml(text: str, path: Path) -> list[Any]:
    try:
        listed = tomllib.loads(text).get("queries")
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"the queries in {path} are not TOML ({error}); mend that place") from None
    return listed if isinstance(listed, list) else []


def _from_csv(text: str, path: Path) -> list[Any]:
    """Columns are those of the table; a field has a label, or several between |; an empty one is no condition."""
    lines = csv.reader(text.splitlines(keepends=True))
    names = next(lines, [])
    queries: list[Any] = []
    for fields in lines:
        if not fields:
            continue
        conditions = {
            name.strip(): [label.strip() for label in field.split("|")]
            for name, field in zip(names, fields, strict=False)
            if field.strip()
        }
        if len(fields) != len(names) or not conditions:
            what = "no condition" if len(fields) == len(names) else "another number of fields than the header"
            raise OptionError(f"line {lines.line_num} of {path} has {what}; mend or remove it")
        queries.append(conditions)
    return queries
