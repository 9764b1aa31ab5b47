"""Error bars in the report: the step that measured them, intervals and what they rest on, and which answers are good
enough to publish, against brute force."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import openprior as op
from openprior.errors import ReleaseError
from openprior.releases.result import Release
from openprior.report import grades, render
from openprior.report.budget import budget_of
from openprior.report.facts import gather
from openprior.report.grades import grades_of, least_sizes
from openprior.report.steps import noise_range, steps_of
from openprior.tables.simulate import demo_surveys

COLUMNS = ["region", "age", "sex", "chronic"]
PUBLIC, PRIVATE = (t.select(COLUMNS) for t in demo_surveys(3000, 3000))
SCHEMA = op.Schema.draft(PUBLIC, bins=30)


def make(mechanism: Any, *, public: Any = None, **options: Any) -> Release:
    given = {"epsilon": 2.0, "delta": 1e-9, "workload": 2, "schema": SCHEMA, "seed": 1, **options}
    return op.release(PRIVATE, public, mechanism=mechanism, **given)


@pytest.fixture(scope="module")
def made() -> Release:
    return make(op.Tilt(particles=2000), public=PUBLIC, epsilon=4.0)


@pytest.fixture(scope="module")
def page(made: Release) -> str:
    return render(made)


def section(page: str, name: str) -> str:
    start = page.index(f'<section id="{name}">')
    return page[start : page.index("</section>", start)]


# The step.


@pytest.mark.parametrize(("mechanism", "delta"), [(op.Mst(), 1e-9), (op.Ide(noise="laplace"), 0.0)])
def test_measuring_the_error_is_a_step_of_its_own_and_the_bar_adds_up(mechanism: Any, delta: float) -> None:
    release = make(mechanism, public=PUBLIC, delta=delta)
    c = release.certificate
    budget = budget_of(c, steps_of(c, SCHEMA))
    (group,) = [g for g in budget.groups if g.key == "errors"]
    assert (group.name, group.steps) == ("Measuring how wrong the answers are", 1)
    assert group.noise.endswith("rows of error")
    assert 0 < group.share <= 0.0301
    assert budget.spent == pytest.approx(c.epsilon_spent if delta == 0 else c.rho_spent)
    assert sum(g.cost for g in budget.groups) == pytest.approx(budget.spent)
    last = budget.segments[-1]
    assert last.key == "errors"
    assert last.start + last.width == pytest.approx(budget.spent / budget.limit)
    said = render(release)
    assert "Measuring how wrong the answers are" in said
    assert ": measuring how wrong the answers are. " in said
    assert "the last one measures how wrong the answers are" in said
    assert "Measuring an error" not in said


def test_its_noise_is_told_in_rows_of_a_tables_error(made: Release) -> None:
    assert made.error_bars is not None
    (step,) = [s for s in steps_of(made.certificate, SCHEMA) if s.group == "errors"]
    assert step.noise == f"{noise_range([made.error_bars.groups[-1].sigma])} of error"
    assert step.counted == ((frozenset(), None),)  # it says nothing about any column by itself


def test_errors_alone_are_no_private_counts() -> None:
    """The public proxy learns nothing, also where its errors are measured."""
    said = render(make(op.PublicProxy(), public=PUBLIC, error_bars=0.3))
    assert "No private count was made" in said
    assert "calibrated" in section(said, "answers")


# Intervals.


def test_charts_show_what_an_interval_rests_on() -> None:
    made = make(op.PmwPub(), public=PUBLIC)  # measures single cells
    facts, page = gather(made, None, None, None, None), render(made)
    assert "calibrated" in facts.bases
    for picture in facts.pictures:
        rows = made.answers([picture.name]).to_pylist()
        for value, row in zip(picture.values, rows, strict=True):
            assert value.basis == row["basis"]
            assert value.low == pytest.approx(row["low"] / made.model.total)
    assert 'class="whisker calibrated"' in page and "(calibrated)" in page
    assert "<td>calibrated</td>" in section(page, "answers")
    assert "because it looks odd" in section(page, "answers")
    assert "promises nothing of a single one that looks odd" in section(page, "columns")


def test_a_release_of_measured_counts_alone_speaks_of_no_average() -> None:
    said = render(make(op.Hdmm()))
    assert "whisker measured" in said and "calibrated" not in section(said, "columns")
    assert "<b>Measured</b>" in said and "<b>Calibrated</b>" not in said


# Good enough?


def brute(release: Release, columns: int) -> tuple[int, list[float], list[float]]:
    """Cells of at least one row, and the shares of cells and of rows by class, from the answers one by one."""
    cells, rows, everything = [0.0] * 4, [0.0] * 4, 0.0
    for marginal in combinations(SCHEMA.names, columns):
        for row in release.answers(marginal).to_pylist():
            everything += max(row["estimate"], 0.0)
            if row["estimate"] < 1:
                continue
            error = row["standard_error"]
            variation = np.inf if error is None else error / row["estimate"]
            grade = sum(variation > limit for limit in (0.05, 0.15, 0.30))
            cells[grade] += 1
            rows[grade] += row["estimate"]
    return int(sum(cells)), [c / sum(cells) for c in cells], [r / everything for r in rows]


@pytest.mark.parametrize("mechanism", [op.Mst(), op.Hdmm(), op.DualQuery(samples=20)])
def test_answers_are_graded_as_one_by_one(mechanism: Any) -> None:
    release = make(mechanism, public=PUBLIC if mechanism.name == "dual-query" else None)
    found = grades_of(release)
    assert [row.columns for row in found.rows] == [1, 2]
    for row in found.rows:
        number, cells, rows = brute(release, row.columns)
        assert row.tables == row.looked_at and row.cells == number
        np.testing.assert_allclose(row.of_cells, cells)
        np.testing.assert_allclose(row.of_rows, rows)
        assert sum(row.of_rows) + row.smaller == pytest.approx(1.0)
        assert sum(s.width for s in row.segments) == pytest.approx(sum(row.of_rows))
    assert not found.is_sample


def test_the_smallest_answers_in_a_class_are_those_of_the_bars(made: Release) -> None:
    bars = made.error_bars
    assert bars is not None
    for columns in (1, 2):
        for limit, size in zip((0.05, 0.15, 0.30), least_sizes(bars, columns, 1e12), strict=True):
            assert size is not None
            sizes = np.array([size, 0.85 * size])
            at, below = bars.around(sizes, columns).standard_error / sizes
            assert at <= limit < below
        assert least_sizes(bars, columns, 3.0) == (None, None, None)


def test_with_exact_noise_the_least_precise_cell_decides() -> None:
    release = make(op.Hdmm())
    (_, two) = grades_of(release).rows
    worst = max(max(release.answers(m)["standard_error"].to_pylist()) for m in combinations(SCHEMA.names, 2))
    for limit, size in zip((0.05, 0.15, 0.30), two.least, strict=True):
        assert size is None or worst / limit <= size <= 1.11 * worst / limit
    assert grades_of(release).unsure is None
    assert "known exactly" in section(render(release), "grades")


def test_some_tables_stand_for_very_many(made: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    everything = grades_of(made).rows[1]
    monkeypatch.setattr(grades, "_MOST_CELLS", 250)
    some = grades_of(made)
    assert some.is_sample and 0 < some.rows[1].looked_at < some.rows[1].tables == 6
    assert 0.2 * everything.cells < some.rows[1].cells < 5 * everything.cells
    assert "some stand for all" in section(render(made), "grades")


def test_the_page_says_what_is_promised_and_what_breaks_it(page: str) -> None:
    said = section(page, "grades")
    for words in (
        "good enough for publication",
        "What is promised",
        "What breaks it",
        "no table of the workload",
    ):
        assert words in said
    assert "too small to tell" not in said
    assert "openprior replicates" in section(page, "limits")


def test_a_budget_that_is_too_small_is_told() -> None:
    release = make(op.Tilt(particles=2000, rounds=4), public=PUBLIC, epsilon=0.2)
    assert (
        release.error_bars is not None
        and release.error_bars.unsure > 1
        and not release.error_bars.says_nothing
    )
    assert "too small to tell the errors from noise" in section(render(release), "grades")


def test_a_budget_that_tells_nothing_has_no_grades() -> None:
    release = make(op.Mst(), epsilon=0.003, error_bars=0.01)
    assert release.error_bars is not None and release.error_bars.says_nothing
    said = section(render(release), "grades")
    assert "too small to tell the errors of these answers from noise" in said and "<table" not in said
    assert set(release.answers()["basis"].to_pylist()) <= {"measured", "none"}
    assert any("no error bars" in words for words in release.certificate.remarks)
    with pytest.raises(ReleaseError, match="no error bars"):
        release.replicates(2)


@pytest.mark.parametrize(
    "release",
    [lambda: make(op.PublicProxy(), public=PUBLIC), lambda: make(op.Mst(), error_bars=0)],
    ids=["public", "mst"],
)
def test_without_error_bars_one_sentence_is_all(release: Any) -> None:
    said = section(render(release()), "grades")
    assert "was not measured" in said and "<table" not in said
