"""The report in a real browser: drawn, readable in both themes, usable by keyboard, harmless, quiet on the network."""

from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.evaluation.metrics import evaluate, write_report
from openprior.report import render
from openprior.schema.base import Schema
from openprior.schema.bins import Datetime, Real
from openprior.schema.columns import Categorical
from openprior.tables.simulate import demo_surveys
from tests.browser import CHROMIUM, Browser, browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH: apt-get install chromium")

COLUMNS = ["region", "age", "sex", "income", "chronic"]
SECTIONS = ["promise", "budget", "origin", "scope", "columns", "grades", "answers", "limits", "check"]
EVIL = (
    "</script><img src=x onerror='window.harmed=1'>",
    '"><svg onload=window.harmed=1>',
    "W" * 400,
    "🦊👩‍👩‍👧 नमस्ते",
    "'",
)

NAMES_OF_EVIL = ("<img src=x onerror=window.harmed=1>", "N" * 200, "`${1}`{{ 7*7 }}")


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A publishable report, an evaluated one, one of hostile labels, and the first without its script."""
    folder = tmp_path_factory.mktemp("reports")
    public, private = (t.select(COLUMNS) for t in demo_surveys(400, 400))
    schema = op.Schema.draft(public, bins=30)
    given: dict[str, Any] = {"schema": schema, "epsilon": 4.0, "delta": 1e-9, "workload": op.all_marginals(2)}
    made = op.release(private, public, mechanism=op.Mst(), dataset="small survey", **given)
    paths = {name: folder / f"{name}.html" for name in ("plain", "evaluated", "evil", "still")}
    text = render(made)
    paths["plain"].write_text(text, encoding="utf-8")
    paths["still"].write_text(
        text.replace(text[text.index("<script>") : text.index("</body>")], ""), encoding="utf-8"
    )
    found = evaluate(made, private)
    write_report(made, found, private, paths["evaluated"])
    paths["evil"].write_text(render(_evil()), encoding="utf-8")
    return paths


def _evil() -> op.Release:
    """Names and labels that are markup, very long, or not letters."""
    names = NAMES_OF_EVIL
    schema = Schema(tuple(Categorical(name=n, values=EVIL) for n in names))
    draw = np.random.default_rng(1)
    rows, others = (pa.table({n: draw.choice(EVIL, 200).tolist() for n in names}) for _ in range(2))
    return op.release(
        rows, others, schema=schema, workload=op.all_marginals(2), epsilon=1.0, delta=1e-9, seed=1,
        mechanism=op.PublicProxy(), dataset="</title><script>window.harmed=1</script>",
    )  # fmt: skip


LONG = (
    "never married, living alone or with relatives, no children in the household",
    "married or in a registered partnership, spouse present in the household",
    "widowed",
)
NAMES = (
    "marital_status_of_the_reference_person",
    "marital_status_of_the_second_person",
    "INCOME_IN_2024",
    "day",
)


@pytest.fixture(scope="module")
def wordy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of long labels, long names, incomes and days."""
    schema = Schema(
        (
            *(Categorical(name=n, values=LONG, missing=True) for n in NAMES[:2]),
            Real(name=NAMES[2], bins=(0, 12_000, 30_000, 1_250_000), out_of_domain="clip"),
            Datetime(name=NAMES[3], dtype="date32", bins=tuple(date(2020 + i, 1, 1) for i in range(5))),
        )
    )
    draw = np.random.default_rng(1)
    days = [date(2020, 1, 1) + timedelta(days=int(d)) for d in draw.integers(0, 1400, 200)]
    rows, others = (
        pa.table(
            {
                **{n: draw.choice(LONG, 200).tolist() for n in NAMES[:2]},
                NAMES[2]: draw.uniform(0, 60_000, 200),
                NAMES[3]: pa.array(draw.permutation(days).tolist(), pa.date32()),
            }
        )
        for _ in range(2)
    )
    made = op.release(
        rows, others, schema=schema, workload=op.all_marginals(2), epsilon=1.0, delta=1e-9,
        mechanism=op.PublicProxy(), title="A title " * 20, about="About. " * 200, contact="w" * 400,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("wordy") / "report.html"
    path.write_text(render(made), encoding="utf-8")
    return path


OVERLAPS = """(() => {
  const box = (e) => e.getBoundingClientRect();
  const boxes = (selector) => [...document.querySelectorAll(selector)].map((e) => [e.textContent, box(e)]);
  const beside = (a, b) => a.right - 1 <= b.left || a.bottom - 1 <= b.top;
  const apart = (a, b) => beside(a, b) || beside(b, a);
  const meet = ([one, a], [other, b]) => { if (!apart(a, b)) found.push([one, other]); };
  const found = [];
  const among = (list) => list.forEach((a, i) => list.slice(i + 1).forEach((b) => meet(a, b)));
  for (const card of document.querySelectorAll("#pictures .card")) {
    card.id = "looked-at";
    among(boxes("#looked-at li span, #looked-at .shares li, #looked-at .ends span, #looked-at h3"));
    for (const label of boxes("#looked-at li span"))
      for (const bar of boxes("#looked-at svg rect.syn, #looked-at svg rect.pub")) meet(label, bar);
    card.id = "";
  }
  among(boxes("svg.heat[viewBox] text[text-anchor=end]"));
  for (const map of document.querySelectorAll("svg.heat[viewBox]")) {
    const all = box(map);
    for (const text of map.querySelectorAll("text")) {
      const own = box(text), sticks = own.left < all.left - 1 || own.right > all.right + 1 || own.top < all.top - 1;
      if (sticks) found.push([text.textContent, "outside"]);
    }
  }
  return found; })()"""


@pytest.mark.parametrize("width", [360, 1280])
def test_long_labels_are_readable_and_do_not_overlap(tab: Browser, wordy: Path, width: int) -> None:
    tab.look(width, 900)
    tab.open(wordy)
    assert tab.js(OVERLAPS) == []
    assert tab.js("document.documentElement.scrollWidth") <= width
    # Of a label on two lines at least thirty letters can be seen.
    rooms = tab.js(
        "[...document.querySelectorAll('#pictures .two li > span')].filter((s) => !s.closest('.shares'))"
        ".map((s) => [s.textContent.length, s.getBoundingClientRect().width * s.getBoundingClientRect().height])"
    )
    assert len(rooms) == 8
    assert all(room >= 30 * 6 * 16 for letters, room in rooms if letters > 60), rooms
    labels = tab.js("[...document.querySelectorAll('#pictures li > span')].map((s) => s.textContent)")
    assert {"12,000 to below 30,000", "2020-01-01 to 2020-12-31", *LONG} <= set(labels)
    harmless(tab, wordy)


def harmless(tab: Browser, path: Path) -> None:
    assert tab.errors == []
    assert tab.requests == [path.absolute().as_uri()], "the page must load nothing but itself"


@pytest.mark.parametrize("name", ["plain", "evaluated", "evil", "still"])
def test_everything_is_drawn_without_errors_or_requests(
    tab: Browser, pages: dict[str, Path], name: str
) -> None:
    tab.look()
    tab.open(pages[name])
    drawn = tab.js(
        """[...document.querySelectorAll("svg")].filter((s) => !s.closest("details:not([open])")).map((s) => {
            const box = s.getBoundingClientRect();
            const shapes = [...s.querySelectorAll("rect, line, circle, text")].filter((e) => {
                const own = e.getBoundingClientRect(); return own.width + own.height > 0; });
            return [s.getAttribute("class"), box.width, box.height, shapes.length]; })"""
    )
    assert len(drawn) > 20
    assert all(width > 0 and height > 0 and shapes > 0 for _, width, height, shapes in drawn), drawn
    inside = tab.js(
        """[...document.querySelectorAll("#pictures svg rect, #pictures svg circle, svg.stack rect")].every((e) => {
            const own = e.getBoundingClientRect(), svg = e.closest("svg").getBoundingClientRect();
            return own.right <= svg.right + 5 && own.left >= svg.left - 5 && own.bottom <= svg.bottom + 5; })"""
    )
    assert inside, "a shape sticks out of its chart"
    harmless(tab, pages[name])


def test_hostile_labels_do_no_harm(tab: Browser, pages: dict[str, Path]) -> None:
    tab.look(360, 740)
    tab.open(pages["evil"])
    assert tab.js("window.harmed === undefined && !document.querySelector('img')")
    shown = tab.js("[...document.querySelectorAll('#pictures li')].map((e) => e.textContent)")
    assert set(EVIL) <= set(shown)
    assert tab.js("document.documentElement.scrollWidth") <= 360
    assert tab.js("document.querySelector('h1').textContent").startswith("</title>")
    for _ in range(30):
        tab.press("Tab")
    assert tab.js("window.harmed === undefined")
    harmless(tab, pages["evil"])


@pytest.mark.parametrize("name", ["plain", "evaluated", "still"])
def test_a_phone_needs_no_sideways_scrolling(tab: Browser, pages: dict[str, Path], name: str) -> None:
    tab.look(360, 740)
    tab.open(pages[name])
    assert tab.js("document.documentElement.scrollWidth") <= 360
    tab.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert tab.js("document.documentElement.scrollWidth") <= 360


def test_releases_side_by_side_as_a_page(tab: Browser, tmp_path: Path) -> None:
    evil, other = _evil(), _evil()
    found = op.compare({EVIL[0]: evil, EVIL[2]: other}, evil.synthetic)
    path = found.save(tmp_path / "new" / "page.html")
    tab.look(360, 800)
    tab.open(path)
    assert tab.js("window.harmed === undefined && !document.querySelector('img')")
    assert tab.js("document.querySelector('.banner').textContent").startswith("NOT PRIVATE")
    assert tab.js("document.documentElement.scrollWidth") <= 360
    assert tab.js("document.querySelectorAll('svg.picture g.tip').length") == 2 * 3 + 2 * 2
    tab.js(
        "document.querySelector('svg.picture g.tip').dispatchEvent(new Event('pointerover', { bubbles: true }))"
    )
    assert tab.js("tooltip.textContent").startswith(NAMES_OF_EVIL[0])
    harmless(tab, path)


CONTRAST = """(() => {
  const parts = (c) => { const n = c.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = ([r, g, b]) => { const f = (v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
    return .2126 * f(r) + .7152 * f(g) + .0722 * f(b); };
  const ground = (e) => {
    for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c[3] > .99) return c; }
    return [255, 255, 255, 1]; };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    if (["SCRIPT", "STYLE"].includes(e.tagName) || e.closest("details:not([open]) > :not(summary)")) continue;
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    if (!e.getClientRects().length) continue;
    const style = getComputedStyle(e), ink = parts(e.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const [a, b] = [light(ink), light(ground(e))].sort((x, y) => y - x);
    found.push([(a + .05) / (b + .05), e.tagName, e.className.baseVal ?? e.className, e.textContent.slice(0, 40)]);
  }
  return found.sort((x, y) => x[0] - y[0]).slice(0, 5).concat([[found.length]]);
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["plain", "evaluated"])
def test_text_stands_out_in_both_themes(tab: Browser, pages: dict[str, Path], name: str, scheme: str) -> None:
    tab.look(scheme=scheme)
    tab.open(pages[name])
    *worst, (texts,) = tab.js(CONTRAST)
    assert texts > 200
    assert worst[0][0] >= 4.5, worst
    ground = tab.js("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(15, 19, 25)") == (scheme == "dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_button_changes_the_theme(tab: Browser, pages: dict[str, Path], scheme: str) -> None:
    tab.look(scheme=scheme)
    tab.open(pages["plain"])
    ground = "getComputedStyle(document.body).backgroundColor"
    before, says = tab.js(ground), tab.js("theme.textContent")
    tab.js("theme.focus()")
    tab.press("Enter")
    assert tab.js(ground) != before and tab.js("theme.textContent") != says
    assert tab.js(CONTRAST)[0][0] >= 4.5
    tab.press(" ")
    assert tab.js(ground) == before


def test_the_keyboard_reaches_everything_in_order(tab: Browser, pages: dict[str, Path]) -> None:
    tab.look()
    tab.open(pages["evaluated"])
    stops = tab.js(
        """(window.stops = [...document.querySelectorAll("a, button, input, summary, [tabindex]")].filter((e) =>
            e.tabIndex >= 0 && !e.closest("details:not([open]) > :not(summary)")
            && e.getClientRects().length)).length"""
    )
    assert stops > 40
    for number in range(stops):
        tab.press("Tab")
        place, seen = tab.js(
            """(() => { const e = document.activeElement, s = getComputedStyle(e);
              const inner = e.querySelector(".hit, rect:last-of-type");
              const ring = s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2;
              const edge = e.matches("g.tip") && inner && getComputedStyle(inner).strokeWidth === "3px";
              return [window.stops.indexOf(e), ring || edge]; })()"""
        )
        assert place == number, f"stop {number} went to {place}"
        assert seen, f"the focus cannot be seen at stop {number}"


def test_arrows_walk_a_chart_and_tell_its_numbers(tab: Browser, pages: dict[str, Path]) -> None:
    tab.look()
    tab.open(pages["evaluated"])
    tab.js("document.querySelector('#error svg.heat g.tip').focus()")
    label = "document.activeElement.getAttribute('aria-label')"
    seen = [tab.js(label)]
    for key in ("ArrowDown", "ArrowRight", "ArrowUp", "End", "Home"):
        tab.press(key)
        seen.append(tab.js(label))
    names = [text.rpartition(":")[0] for text in seen]
    assert names == ["region", "region × age", "age", "age", "chronic", "region"]
    assert tab.js("tooltip.hidden") is False and tab.js("tooltip.textContent") == seen[-1]
    tab.press("Escape")
    assert tab.js("tooltip.hidden") is True
    assert tab.js("document.querySelectorAll('#error svg.heat [tabindex=\"0\"]').length") == 1


def test_finding_and_sorting(tab: Browser, pages: dict[str, Path]) -> None:
    tab.look()
    tab.open(pages["plain"])
    tab.js("document.getElementById('find-column').focus()")
    tab.type("INC")
    cards = "[...document.querySelectorAll('#pictures .card')].filter((c) => c.getClientRects().length)"
    assert tab.js(f"{cards}.map((c) => c.dataset.text)") == ["income"]
    assert tab.js("document.querySelector('#columns [role=status]').textContent") == "1 of 5"
    tab.js("document.getElementById('find-answer').focus()")
    tab.type("sex female")
    rows = tab.js(
        "[...document.querySelectorAll('#answer-rows tr')].filter((r) => !r.hidden).map((r) => r.textContent)"
    )
    assert rows and all("sex" in r and "female" in r for r in rows)

    tab.js("document.querySelectorAll('#origin thead th [role=button]')[1].focus()")
    column = "[...document.querySelectorAll('#origin .scroll table')][0].tBodies[0].rows"
    values = f"[...{column}].map((r) => parseFloat(r.cells[1].textContent))"
    tab.press("Enter")
    assert tab.js(values) == sorted(tab.js(values), reverse=True)
    tab.press(" ")
    assert tab.js(values) == sorted(tab.js(values))
    assert tab.js("document.querySelector('#origin th[aria-sort]').getAttribute('aria-sort')") == "ascending"


@pytest.mark.parametrize("name", ["plain", "evaluated", "still"])
def test_print_shows_all_of_it_on_white(
    tab: Browser, pages: dict[str, Path], name: str, tmp_path: Path
) -> None:
    tab.look(800, 1100, scheme="dark", media="print")
    tab.open(pages[name])
    tab.js("document.documentElement.dataset.theme = 'dark'")
    sections = [*SECTIONS[:5], "error", *SECTIONS[5:]] if name == "evaluated" else SECTIONS
    shown = tab.js(
        """[...document.querySelectorAll("main > section")].filter((s) => s.getBoundingClientRect().height > 50)
            .map((s) => s.id)"""
    )
    assert shown == sections
    assert tab.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.js("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert tab.js(
        "[...document.querySelectorAll('.scroll')].every((s) => s.scrollHeight <= s.clientHeight + 1)"
    )
    tab.pdf(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
