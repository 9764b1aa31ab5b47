"""The folder of a release is closed: what is changed, cut, lost, added, linked or renamed is named and refused."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import openprior as op
from openprior.errors import ReleaseError
from openprior.releases.certificate import Certificate
from openprior.releases.check import check_release
from openprior.releases.folder import read
from tests.console import say
from tests.forgery import made, seal_anew

KINDS = ("mst", "parts")
"""As Parquet and as CSV."""


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("originals")
    for kind in KINDS:
        made(kind, place / kind)
    return {kind: place / kind for kind in KINDS}


@pytest.fixture
def folder(originals: dict[str, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(originals["mst"], tmp_path / "r"))


def refusal(folder: Path) -> str:
    """What both ways to open it say, in one line."""
    with pytest.raises(ReleaseError) as caught:
        check_release(folder)
    with pytest.raises(ReleaseError) as again:
        op.open_release(folder)
    assert str(caught.value) == str(again.value)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_certificate_lists_every_file(originals: dict[str, Path], kind: str) -> None:
    folder = originals[kind]
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != "certificate.json"]
    listed = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))["files"]
    assert listed == {
        p.relative_to(folder).as_posix(): {
            "bytes": p.stat().st_size,
            "sha256": hashlib.sha256(p.read_bytes()).hexdigest(),
        }
        for p in files
    }
    certificate = check_release(folder)
    assert certificate.sha256 == hashlib.sha256((folder / "certificate.json").read_bytes()).hexdigest()
    opened = op.open_release(folder)
    again = opened.save(folder.parent / f"{kind} again", format="csv")
    assert check_release(again) == certificate
    assert op.open_release(again).synthetic.equals(opened.synthetic)


@pytest.mark.parametrize("kind", KINDS)
def test_every_file_is_looked_at(originals: dict[str, Path], kind: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(originals[kind], tmp_path / "r"))
    tried = 0
    for file in [p for p in folder.rglob("*") if p.is_file() and p.name != "certificate.json"]:
        name, whole = file.relative_to(folder).as_posix(), file.read_bytes()
        for place in {0, len(whole) // 3, 2 * len(whole) // 3, len(whole) - 1}:
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            assert f"{name} is not the file" in refusal(folder)
            tried += 1
        for other in (whole[:-1], whole + b"\n", b"", whole[: len(whole) // 2]):
            file.write_bytes(other)
            assert f"{name} has {len(other):,} bytes and not the {len(whole):,}" in refusal(folder)
        file.unlink()
        said = refusal(folder)
        assert f"{name} is missing" in said or "empty folder" in said
        renamed = file.with_name(file.name.upper())
        renamed.write_bytes(whole)
        said = refusal(folder)
        assert "does not list" in said
        assert renamed.name in said
        renamed.unlink()
        file.write_bytes(whole)
    assert tried > 30
    check_release(folder)


@pytest.mark.parametrize(
    "name", [".DS_Store", "Thumbs.db", "notes.txt", "model/more", "synthetic.csv", "a\nb", "é"]
)
def test_what_was_added_is_named(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"")
    said = refusal(folder)
    assert name.replace("\n", "?") in said
    assert "remove what was added" in said


def test_links_folders_and_devices(folder: Path, tmp_path: Path) -> None:
    def changed(change: Callable[[], object], undo: Callable[[], object]) -> str:
        change()
        try:
            return refusal(folder)
        finally:
            undo()

    extra, file = folder / "extra", folder / "report.html"
    assert "empty folder extra" in changed(extra.mkdir, extra.rmdir)
    assert "link" in changed(lambda: extra.symlink_to(file), extra.unlink)
    assert "link" in changed(lambda: extra.symlink_to("nowhere"), extra.unlink)
    assert "no plain file" in changed(lambda: os.mkfifo(extra), extra.unlink)
    outside = tmp_path / "outside.html"
    shutil.move(file, outside)
    assert "report.html, which is a link" in changed(lambda: file.symlink_to(outside), file.unlink)
    assert "empty folder report.html" in changed(file.mkdir, file.rmdir)
    os.link(outside, file)  # a second name of the same file is that file
    check_release(folder)
    certificate = folder / "certificate.json"
    shutil.move(certificate, outside)
    assert "no plain file" in changed(lambda: certificate.symlink_to(outside), certificate.unlink)
    assert "no plain file" in changed(certificate.mkdir, certificate.rmdir)
    assert "it has no certificate.json" in refusal(folder)
    deep = folder / "/".join("d" * 30)
    deep.mkdir(parents=True)
    shutil.move(outside, certificate)
    refusal(folder)
    shutil.rmtree(folder / "d")
    through = tmp_path / "through"
    through.symlink_to(folder)  # the way to the folder may be a link
    check_release(through)


def test_a_folder_that_is_being_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody writes between the digest and the reading: the new bytes are not handed out as the old ones."""
    import openprior.models.base as models

    load = models.load_model

    def meddle(place: Path) -> Any:
        file = folder / "answers.parquet"
        file.write_bytes(file.read_bytes())
        return load(place)

    monkeypatch.setattr(models, "load_model", meddle)
    assert "changed while it was read" in refusal(folder)
    monkeypatch.setattr(models, "load_model", load)
    check_release(folder)
    monkeypatch.setattr(models, "load_model", lambda _: (folder / "report.html").unlink())
    with pytest.raises(ReleaseError):
        read(folder)


def test_a_half_copied_folder(originals: dict[str, Path], tmp_path: Path) -> None:
    """In the order of their names, file by file: nothing before the end is a release."""
    source, target = originals["mst"], tmp_path / "copy"
    target.mkdir()
    for file in sorted(p for p in source.rglob("*") if p.is_file()):
        refusal(target)
        place = target / file.relative_to(source)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(file.read_bytes())
    check_release(target)


def test_unreadable_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    for what in ("pathlib.Path.open", "os.scandir", "pathlib.Path.read_bytes"):
        with monkeypatch.context() as patch:
            patch.setattr(what, refused)
            assert "Permission denied" in refusal(folder)


# A forger who lists what was changed.


def forged(folder: Path, name: str, content: bytes) -> str:
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(content)
    seal_anew(folder)
    try:
        return refusal(folder)
    finally:
        (folder / name).write_bytes(whole)
        seal_anew(folder)


def test_json_files_are_read_strictly(folder: Path) -> None:
    work = json.loads((folder / "workload.json").read_bytes())
    for change in (
        {"more": 1},
        {"weights": [True] * len(work["weights"])},
        {"weights": [float("nan")] * len(work["weights"])},
        {"weights": ["1.0"] * len(work["weights"])},
        {"weights": work["weights"][1:]},
        {"marginals": ["ab"]},
        {"marginals": [["b", "a"], *work["marginals"][1:]]},
        {"marginals": [[1, 2], *work["marginals"][1:]]},
        {"marginals": [["zebra"], *work["marginals"][1:]]},
        {"marginals": {"a": 1}},
    ):
        assert "damaged" in forged(folder, "workload.json", json.dumps({**work, **change}).encode())
    view = json.loads((folder / "public.json").read_bytes())
    for change in (
        {"rows": True},
        {"rows": 0},
        {"rows": 1.5},
        {"shares": {}},
        {"shares": {**view["shares"], "a": [1.0]}},
        {"shares": {**view["shares"], "a": [0.5, 0.6, 0.2]}},
        {"shares": {**view["shares"], "a": [True, False, False]}},
        {"shares": {**view["shares"], "a": [float("inf"), 0, 0]}},
        {"distances": [[["a"], "0.1"]]},
        {"distances": [[["a"], 2.5]]},
        {"distances": [[["b", "a"], 0.5]]},
        {"distances": [["a", 0.5], 7]},
        {"more": 1},
    ):
        assert "damaged" in forged(folder, "public.json", json.dumps({**view, **change}).encode())
    model = json.loads((folder / "model" / "model.json").read_bytes())
    for change in ({"domain": {"a": 3.0}}, {"domain": [3]}, {"kind": True}, {"kind": "magic"}, {"total": -1}):
        said = forged(folder, "model/model.json", json.dumps({**model, **change}).encode())
        assert "damaged" in said
    for name in ("workload.json", "public.json", "model/model.json", "schema.toml"):
        for text in (b"", b"[" * 10**5, b"{}", b"null", b"\xff", b'{"a": 1, "a": 1}', b"a = [" + b"[" * 5000):
            assert "damaged" in forged(folder, name, text)


def test_a_forged_list_of_files(folder: Path) -> None:
    for name in (
        "measurements.parquet",
        "synthetic.parquet",
        "schema.toml",
        "model/model.json",
        "report.html",
    ):
        whole = (folder / name).read_bytes()
        (folder / name).unlink()
        seal_anew(folder)
        assert "lists no" in refusal(folder)
        (folder / name).write_bytes(whole)
    for name in ("more.txt", "synthetic.csv", "private.csv"):
        (folder / name).write_bytes(b"a,b,c\n")
        seal_anew(folder)
        assert "its certificate lists" in refusal(folder)
        (folder / name).unlink()
    seal_anew(folder)
    check_release(folder)


def test_rows_of_another_type(folder: Path) -> None:
    rows = parquet.read_table(folder / "synthetic.parquet")
    for changed in (
        rows.rename_columns(["a", "b", "z"]),
        rows.select(["b", "a", "c"]),
        rows.set_column(0, "a", rows["a"].cast(pa.string())),
        rows.append_column("a", rows["a"]),
    ):
        parquet.write_table(changed, folder / "synthetic.parquet")
        seal_anew(folder)
        assert "its synthetic rows" in refusal(folder)


def test_every_column_of_the_measurements_is_checked(folder: Path) -> None:
    file = folder / "measurements.parquet"
    table = parquet.read_table(file)
    facts = json.loads(table.schema.metadata[b"openprior"])

    def column(name: str, values: Any) -> pa.Table:
        place = table.column_names.index(name)
        made_of = pa.array(values, from_pandas=False) if not isinstance(values, pa.Array) else values
        return table.set_column(place, name, made_of)

    def first(name: str, value: Any) -> pa.Table:
        kind = table.schema.field(name).type
        values = [value, *table[name].to_pylist()[1:]]
        return column(
            name, pa.array(values, kind if not pa.types.is_dictionary(kind) else pa.string()).cast(kind)
        )

    def said(*changed: dict[str, Any]) -> pa.Table:
        return table.replace_schema_metadata({"openprior": json.dumps(list(changed))})

    ids = table["measurement"].to_numpy()
    changes = [
        column("standard_deviation", table["standard_deviation"].to_numpy() * 1.01),
        first("standard_deviation", np.nan),
        first("marginal", "a × c"),
        first("where", "b = 1"),
        first("cell", 1),
        first("value", np.nan),
        first("value", np.inf),
        first("value", 0.5),
        first("value", None),
        first("measurement", 1),
        first("measurement", -1),
        column("measurement", pa.array(np.where(ids == ids.max(), ids.max() + 1, ids))),
        column("measurement", ids.astype(np.int64)),
        column("value", table["value"].to_numpy().astype(np.float32)),
        column("value", np.ones(table.num_rows, bool)),
        column("value", pa.array(["1"] * table.num_rows)),
        table.append_column("more", table["value"]),
        table.drop_columns(["where"]),
        table.slice(1),
        pa.concat_tables([table, table.slice(0, 1)]),
        table.replace_schema_metadata({}),
        table.replace_schema_metadata({**table.schema.metadata, "more": "1"}),
        said(*facts[1:]),
        said(*facts, facts[-1]),
        said({**facts[0], "sigma": True}, *facts[1:]),
        said({**facts[0], "sigma": facts[0]["sigma"] * 1.01}, *facts[1:]),
        said({**facts[0], "part": {"b": 0}}, *facts[1:]),
        said({**facts[0], "part": {"b": True}}, *facts[1:]),
        said({**facts[0], "noise": "laplace"}, *facts[1:]),
        said({**facts[0], "statistic": "score", "over": "cells"}, *facts[1:]),
        table.replace_schema_metadata({"openprior": b"[" * 10**5}),
        table.replace_schema_metadata({"openprior": b'{"a": NaN}'}),
    ]
    for number, changed in enumerate(changes):
        parquet.write_table(changed, file)
        seal_anew(folder)
        assert "damaged" in refusal(folder), number


def test_as_many_answers_as_queries(tmp_path: Path) -> None:
    folder = tmp_path / "pure"
    release = made("pure", folder)
    assert "queries" in {m.statistic.kind for m in release.measurements}
    check_release(folder)
    file = folder / "measurements.parquet"
    table = parquet.read_table(file)
    ids = table["measurement"].to_numpy()
    for kept in (np.arange(len(ids)) != 0, np.arange(len(ids)) != len(ids) - 1):
        parquet.write_table(table.filter(pa.array(kept)), file)
        seal_anew(folder)
        assert "measurements do not fit" in refusal(folder)


# The command.


def test_the_command_says_right_or_why_not(folder: Path) -> None:
    said = say("check", str(folder))
    digest = hashlib.sha256((folder / "certificate.json").read_bytes()).hexdigest()
    assert said.code == 0
    assert said.out.startswith("right: ")
    assert said.out.rstrip().endswith(digest)
    facts = json.loads(say("check", str(folder), "--json").out)
    assert (facts["right"], facts["certificate_sha256"], facts["files"]) == (True, digest, 10)
    assert say("check", str(folder), "--certificate-sha256", digest.upper()).code == 0
    other = say("check", str(folder), "--certificate-sha256", "0" * 64)
    assert other.code == 1
    assert digest in other.err
    (folder / ".DS_Store").touch()
    for more in ((), ("--json",)):
        said = say("check", str(folder), *more)
        assert said.code == 1
        assert said.err.startswith("error: the folder ")
        assert ".DS_Store" in said.err
        assert len(said.err.splitlines()) == 1
        if more:
            facts = json.loads(said.out)
            assert facts["right"] is False
            assert ".DS_Store" in facts["reason"]
        else:
            assert said.out == ""


def test_a_release_that_is_not_private_is_never_right(tmp_path: Path) -> None:
    made("mst", tmp_path / "r", seed=1)
    assert not op.open_release(tmp_path / "r").certificate.is_private  # it opens, for experiments
    said = say("check", str(tmp_path / "r"))
    assert said.code == 1
    assert said.out == ""
    assert said.err.startswith("error: NOT PRIVATE (seeded noise)")
    facts = json.loads(say("check", str(tmp_path / "r"), "--json").out)
    assert facts["right"] is False
    assert facts["reason"].startswith("NOT PRIVATE (seeded noise)")
    # Saying that it was secure gives it another statement, and the certificate another digest.
    path = tmp_path / "r" / "certificate.json"
    before = Certificate.from_json(path.read_bytes()).sha256
    path.write_bytes(path.read_bytes().replace(b'"NOT PRIVATE (seeded noise)"', b'"secure"'))
    assert "its statement" in refusal(tmp_path / "r")
    with pytest.raises(ReleaseError):
        check_release(tmp_path / "r", certificate_sha256=before)
