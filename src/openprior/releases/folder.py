"""What a release folder holds: written file by file, read back with suspicion."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openprior.errors import OpenPriorError, ReleaseError

if TYPE_CHECKING:
    import pyarrow as pa

    from openprior.privacy.events import Event
    from openprior.report import Reported
    from openprior.schema.base import Schema

__all__ = ["read", "write"]

_DAMAGE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    EOFError,
    RuntimeError,
    zlib.error,
    zipfile.BadZipFile,
)
"""What Arrow, NumPy and JSON raise on files that were cut, mixed up or altered."""


def write(release: "Reported", draft: Path, format: str) -> None:
    """Every file of a release."""
    from openprior.releases.answers import write_answers
    from openprior.report import render

    _write_rows(release.synthetic, draft, format)
    write_answers(
        release.model, release.schema, release.measurements, release.workload, draft / "answers.parquet"
    )
    release.measurements.save(draft / "measurements.parquet", release.schema)
    if release.public is not None:
        (draft / "public.json").write_text(json.dumps(release.public.to_dict()), encoding="utf-8")
    (draft / "model").mkdir()
    release.model.save(draft / "model")
    release.schema.save(draft / "schema.toml")
    asked = {"marginals": release.workload.marginals, "weights": release.workload.weights}
    (draft / "workload.json").write_text(json.dumps(asked), encoding="utf-8")
    (draft / "certificate.json").write_text(release.certificate.to_json(), encoding="utf-8")
    (draft / "report.html").write_text(render(release), encoding="utf-8")


def _write_rows(rows: "pa.Table", draft: Path, format: str) -> None:
    if format == "csv":
        from pyarrow import csv

        csv.write_csv(rows, draft / "synthetic.csv")
    else:
        from pyarrow import parquet

        parquet.write_table(rows, draft / "synthetic.parquet")


def _read_rows(folder: Path, schema: "Schema") -> "pa.Table":
    if (folder / "synthetic.csv").exists():
        from pyarrow import csv

        types = {c.name: c.arrow for c in schema.columns}
        options = csv.ConvertOptions(column_types=types, strings_can_be_null=True)
        return csv.read_csv(folder / "synthetic.csv", convert_options=options)
    from pyarrow import parquet

    return parquet.read_table(folder / "synthetic.parquet")


def read(folder: Path) -> dict[str, Any]:
    """What `write` wrote, by name; a ReleaseError if anything is missing, altered or does not belong together."""
    from openprior.models.base import load_model
    from openprior.privacy.unit import Unit
    from openprior.questions.workload import Workload
    from openprior.releases.certificate import Certificate
    from openprior.releases.measurements import Measurements
    from openprior.releases.view import View
    from openprior.schema.base import Schema

    if not (folder / "certificate.json").is_file():
        raise ReleaseError(f"{folder} is not a release folder: it has no certificate.json")
    try:
        schema = Schema.load(folder / "schema.toml")
        certificate = Certificate.from_json((folder / "certificate.json").read_text(encoding="utf-8"))
        asked = json.loads((folder / "workload.json").read_text(encoding="utf-8"))
        work = Workload(asked["marginals"], asked["weights"]).on(schema.domain)
        synthetic = _read_rows(folder, schema)
        model = load_model(folder / "model")
        measurements = Measurements.load(folder / "measurements.parquet", schema.full_domain)
        beside = folder / "public.json"
        public = (
            View.from_dict(json.loads(beside.read_text(encoding="utf-8")), schema)
            if beside.exists()
            else None
        )
        if certificate.schema_hash != schema.hash or model.domain != schema.domain:
            raise ReleaseError("its certificate, its schema and its model do not belong together")
        if tuple(synthetic.column_names) != schema.names:
            raise ReleaseError("its synthetic rows have other columns than its schema")
        if certificate.unit != Unit.of(schema, certificate.relation):
            raise ReleaseError("its certificate and its schema disagree on how many rows a person may have")
        certificate.recheck()
        for event in certificate.events:
            _check_event(event, schema)
        measurements.check(certificate.events)
    except OpenPriorError as error:
        raise ReleaseError(f"the release in {folder} is damaged: {error}; copy it again") from None
    except _DAMAGE as error:
        raise ReleaseError(
            f"the release in {folder} is damaged ({type(error).__name__}); copy it again"
        ) from None
    return {
        "synthetic": synthetic,
        "model": model,
        "certificate": certificate,
        "schema": schema,
        "workload": work,
        "measurements": measurements,
        "public": public,
    }


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
        and event.statistic.is_count
        and event.statistic.fitted(layout) != event.statistic
    ):
        raise ReleaseError("an event names columns in another order than its schema")
