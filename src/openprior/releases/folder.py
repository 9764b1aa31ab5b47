"""What a release folder holds: written file by file and sealed, read back with suspicion.

The certificate is written last, because it has the digest of every other file; the report, which shows what the
certificate says, is one of those. Reading goes the other way: the certificate first, then the seal, then the files and
whether they belong together; and last, whether anybody wrote in the folder meanwhile.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openprior.errors import OpenPriorError, OtherFormat, ReleaseError
from openprior.json_text import parse_json
from openprior.progress import phase
from openprior.releases.seal import CERTIFICATE, check_seal, read_certificate, seal_of, state_of

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as pads

    from openprior.error_bars.bars import ErrorBars
    from openprior.privacy.events import Event
    from openprior.questions.workload import Workload
    from openprior.releases.certificate import Certificate
    from openprior.report import Reported
    from openprior.schema.base import Schema

__all__ = ["read", "seal", "write"]

_ALWAYS = {"model/model.json", "report.html", "schema.toml", "workload.json"}
_ROWS, _MEASUREMENTS, _ANSWERS = "synthetic", "measurements", "answers"
"""Tables, all of one format, which is the ending of their names. Of the rows there may be parts, in a folder, and of
answers none; a release of format 2 has all three as files."""
_PUBLIC, _BARS = "public.json", "error_bars.json"
"""Where there was a public table; where errors were measured."""
_AGAIN = "; copy it again"


def write(release: "Reported", draft: Path, format: str, answers: str) -> None:
    """Every file of a release, and the certificate that lists them; `answers` is one of `which_answers.ANSWERS`."""
    import pyarrow as pa

    from openprior.releases.answers_file import write_answers
    from openprior.releases.row_parts import FOLDER, copy_parts
    from openprior.releases.table_files import write_table
    from openprior.releases.which_answers import answered_marginals
    from openprior.report import render

    rows = release.synthetic
    if isinstance(rows, pa.Table):
        write_table(rows, draft / f"{_ROWS}.{format}")
    elif not (draft / FOLDER).is_dir():  # else they were drawn into it
        copy_parts(rows, release.schema, draft, format)
    model, measured = release.model, release.measurements
    (draft / "model").mkdir()
    with ThreadPoolExecutor(1) as beside:
        saved = beside.submit(model.save, draft / "model")
        if answers != "none":
            answered = answered_marginals(answers, model, measured, release.workload)
            path = draft / f"{_ANSWERS}.{format}"
            write_answers(model, release.schema, measured, answered, path, bars=release.error_bars)
        saved.result()
    measured.save(draft / f"{_MEASUREMENTS}.{format}", release.schema)
    if release.public is not None:
        _write_text(draft / _PUBLIC, json.dumps(release.public.to_dict()))
    if release.error_bars is not None:
        _write_text(draft / _BARS, json.dumps(release.error_bars.to_dict()))
    release.schema.save(draft / "schema.toml")
    asked = {"marginals": release.workload.marginals, "weights": release.workload.weights}
    _write_text(draft / "workload.json", json.dumps(asked))
    with phase("making the report"):
        _write_text(draft / "report.html", render(release, answers=answers))
    seal(draft, release.certificate)


def seal(draft: Path, certificate: "Certificate") -> None:
    """Write the certificate with the digests of all that lies in the folder: the last thing that is written."""
    # Files are alike since 3; from 4 on ε-DP steps are charged less, and an older certificate keeps what it charged.
    form = max(certificate.format, 3)
    _write_text(draft / CERTIFICATE, replace(certificate, files=seal_of(draft), format=form).to_json())


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")  # alike on every system


def _read_rows(folder: Path, names: Sequence[str], schema: "Schema") -> "pa.Table | pads.Dataset":
    """One file as a table, parts as a dataset."""
    import pyarrow as pa

    from openprior.releases.row_parts import open_parts
    from openprior.releases.table_files import check_types, read_rows

    paths = [folder / name for name in names]
    if paths[0].parent != folder:
        return open_parts(paths, schema)
    form = pa.schema([(c.name, c.arrow) for c in schema.columns])
    rows = read_rows(paths[0], schema)
    check_types(rows.schema, form)
    return rows.cast(form)


def read(folder: Path) -> dict[str, Any]:
    """What `write` wrote, by name; a ReleaseError if anything is missing, altered or does not belong together."""
    from openprior.releases.certificate import Certificate

    text = read_certificate(folder)
    try:
        certificate = Certificate.from_json(text)
        certificate.recheck()
    except OtherFormat as error:
        raise OtherFormat(f"the release in {folder} was {error}") from None
    except ReleaseError as error:
        raise _damaged(folder, error) from None
    _check_names(folder, certificate)
    state = check_seal(folder, certificate.files)
    try:
        things = _read_files(folder, certificate)
    except OpenPriorError as error:
        raise _damaged(folder, error) from None
    except Exception as error:  # noqa: BLE001  (Arrow, NumPy, TOML and zip raise anything on a forged file)
        raise ReleaseError(
            f"the release in {folder} is damaged ({type(error).__name__}); copy it again"
        ) from None
    if state_of(folder) != state:
        raise ReleaseError(f"the release in {folder} was changed while it was read; wait, and open it again")
    return things


def _damaged(folder: Path, error: OpenPriorError) -> ReleaseError:
    what = str(error).removesuffix(_AGAIN)
    return ReleaseError(f"the release in {folder} is damaged: {what}{_AGAIN}")


def _check_names(folder: Path, certificate: "Certificate") -> None:
    """Raise unless it lists the files of one release: all that it needs, and nothing else."""
    files, format = certificate.files, _format(certificate.files)
    answers = f"{_ANSWERS}.{format}"
    needed = {*_ALWAYS, f"{_MEASUREMENTS}.{format}", *_rows_of(files)}
    if certificate.format == 2:
        needed |= {f"{_ROWS}.{format}", answers}
    missing = sorted(needed - files.keys())
    others = sorted(
        n for n in files if n not in {*needed, answers, _PUBLIC, _BARS} and not n.startswith("model/")
    )
    if missing or others:
        what = f"no {missing[0]}" if missing else f"{others[0]}, which no release has"
        raise ReleaseError(
            f"{folder} is not a release folder: its certificate lists {what}; copy the release again"
        )


def _format(files: Mapping[str, object]) -> str:
    """The ending of a release's tables; that all of them have it is `_check_names`' matter."""
    return "csv" if f"{_MEASUREMENTS}.csv" in files else "parquet"


def _rows_of(files: Mapping[str, object]) -> list[str]:
    """The files that hold a release's rows: one, or as many parts as there are in the folder."""
    from openprior.releases.row_parts import FOLDER, part_names

    parts = sum(name.startswith(f"{FOLDER}/") for name in files)
    return part_names(_format(files), parts) or [f"{_ROWS}.{_format(files)}"]


def _read_files(folder: Path, certificate: "Certificate") -> dict[str, Any]:
    from openprior.models.base import load_model
    from openprior.privacy.unit import Unit
    from openprior.releases.measurements import Measurements
    from openprior.releases.view import View
    from openprior.schema.base import Schema

    schema = Schema.load(folder / "schema.toml")
    if certificate.schema_hash != schema.hash:
        raise ReleaseError("its certificate and its schema do not belong together")
    if certificate.unit != Unit.of(schema, certificate.relation):
        raise ReleaseError("its certificate and its schema disagree on how many rows a person may have")
    _check_inside(certificate, schema)
    for event in certificate.events:
        _check_event(event, schema)
    format = _format(certificate.files)
    measurements = Measurements.load(
        folder / f"{_MEASUREMENTS}.{format}", schema, certificate.events, certificate.rows
    )
    measurements.check(certificate.events)
    work = _workload(_read_json(folder / "workload.json"), schema)
    public = None
    if _PUBLIC in certificate.files:
        public = View.from_dict(_read_json(folder / _PUBLIC), schema)
    bars = _bars(folder, certificate, work, schema)
    synthetic = _read_rows(folder, _rows_of(certificate.files), schema)
    model = load_model(folder / "model")
    if model.domain != schema.domain:
        raise ReleaseError("its certificate, its schema and its model do not belong together")
    return {
        "synthetic": synthetic,
        "model": model,
        "certificate": certificate,
        "schema": schema,
        "workload": work,
        "measurements": measurements,
        "public": public,
        "error_bars": bars,
    }


def _bars(folder: Path, certificate: "Certificate", work: "Workload", schema: "Schema") -> "ErrorBars | None":
    """What was measured of the errors: there if, and only if, the certificate speaks of it."""
    from openprior.error_bars.bars import ErrorBars
    from openprior.privacy.error_strata import ErrorStrata
    from openprior.privacy.events import Noisy

    asked = any(isinstance(e, Noisy) and isinstance(e.statistic, ErrorStrata) for e in certificate.events)
    if asked != (_BARS in certificate.files):
        raise ReleaseError("its error bars are not those of its certificate")
    if not asked:
        return None
    return ErrorBars.from_dict(_read_json(folder / _BARS), certificate.events, work.marginals, schema.domain)


def _read_json(path: Path) -> object:
    try:
        return parse_json(path.read_bytes())
    except ValueError as error:
        raise ReleaseError(f"its {path.name} cannot be read: {error}") from None


def _workload(values: object, schema: "Schema") -> "Workload":
    from openprior.counting.cells import Cells
    from openprior.privacy.strict import Record
    from openprior.questions.workload import Workload

    record = Record(values, "its workload")
    marginals, weights = record.items("marginals"), record.numbers("weights")
    record.end()
    if not all(type(m) is list and all(type(a) is str for a in m) for m in marginals):
        raise ReleaseError("its workload has something other than lists of columns")
    work = Workload(marginals, weights).on(schema.domain)
    Cells(schema.domain, work.marginals)  # refuses what is too large
    if [list(m) for m in work.marginals] != marginals:
        raise ReleaseError("its workload names columns in another order than its schema, or a marginal twice")
    return work


def _check_inside(certificate: "Certificate", schema: "Schema") -> None:
    """Raise unless the certificate speaks of the bins that the schema has."""
    from openprior.schema.bins import Binned

    bins = {c.name: c.count for c in schema.columns if isinstance(c, Binned) and c.bins}
    if {name: sum(said.values()) for name, said in certificate.values_inside.items()} != bins:
        raise ReleaseError("its certificate and its schema disagree on which columns have bins, or how many")


def _check_event(event: "Event", schema: "Schema") -> None:
    """Raise unless the schema has what an event speaks of: then its overlap of queries, too, is derived anew."""
    from openprior.privacy.events import Noisy
    from openprior.schema.layout import Layout

    layout = Layout(schema.domain, schema.levels)
    if event.part is not None:
        for key, code in event.part.fixed.items():
            if code >= layout.full_domain[key]:
                raise ReleaseError(f"an event speaks of a part {key} = {code} that its schema does not have")
        layout = layout.without(event.part.keys)
    if (
        isinstance(event, Noisy)
        and (event.statistic.is_count or event.statistic.fits_without_data)
        and event.statistic.fitted(layout) != event.statistic
    ):
        raise ReleaseError("an event names columns in another order than its schema")
