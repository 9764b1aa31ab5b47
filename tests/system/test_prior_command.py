"""`openprior prior`, `release --prior` and `openprior cache`: as people type them, and clumsily."""

import json
from pathlib import Path

import pytest
from pyarrow import csv

from tests.conftest import PRIVATE, PUBLIC, arrow
from tests.console import say

pytestmark = pytest.mark.usefixtures("few_particles", "no_syncs")

BUDGET = ("--epsilon", "1", "--delta", "1e-6", "-q")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENPRIOR_CACHE", "kept")
    csv.write_csv(arrow(PRIVATE), "private.csv")
    csv.write_csv(arrow(PUBLIC), "public.csv")
    return tmp_path


def test_a_prior_is_learnt_once_and_used_in_place_of_the_public_table(folder: Path) -> None:
    learnt = say("prior", "public.csv", "--workload", "2", "-o", "survey.prior", "-q")
    assert (learnt.code, learnt.err) == (0, "")
    assert "wrote survey.prior: learnt from 300 public rows, of which it holds a copy" in learnt.out
    digest = learnt.out.split("SHA-256: ")[1].split()[0]
    made = say(
        "release", "private.csv", "--prior", "survey.prior", "--workload", "2", *BUDGET, "-o", "out", "--json"
    )
    assert made.code == 0, made.err
    assert json.loads(made.out)["prior"]["sha256"] == digest
    assert say("check", "out").code == 0
    shown = json.loads(say("cache", "--json").out)
    assert shown["folder"] == str(folder / "kept" / "priors")
    assert (shown["priors"], shown["removed"]) == (1, 0)
    assert f"1 prior, {shown['bytes'] / 1e6:.1f} of at most 1000 MB" in say("cache").out
    assert "removed 1 prior" in say("cache", "--clear").out
    assert not list((folder / "kept" / "priors").iterdir())


def test_clumsy_calls_get_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "there.prior").write_text("no prior")
    calls = {
        ("prior", "public.csv", "-o", "there.prior"): "there.prior exists; choose another name or remove it",
        ("prior", "nothing.csv", "-o", "new.prior"): "there is no file nothing.csv",
        (
            "release",
            "private.csv",
            "--prior",
            "there.prior",
            *BUDGET,
            "-o",
            "out",
        ): "is no prior, or a damaged",
        ("release", "private.csv", "--prior", "no.prior", *BUDGET, "-o", "out"): "there is no prior no.prior",
    }
    for words, expected in calls.items():
        said = say(*words)
        assert said.code == 1
        assert said.err.startswith("error: ")
        assert said.err.count("\n") == 1
        assert expected in said.err
    monkeypatch.setenv("OPENPRIOR_CACHE", "off")
    told = say("cache", "--clear").out
    assert (
        told.startswith("the cache is off (OPENPRIOR_CACHE)") and "were kept before are as they were" in told
    )
    assert json.loads(say("cache", "--json").out)["folder"] is None
