"""The tutorial works word for word, and what it shows is what comes out.

Its commands run in order in an empty folder; a ```text block shows what the block before it prints. Numbers, ids and
the widths of tables differ from run to run and are masked; line breaks do not count, so that long lines may be broken,
and a line with nothing but … stands for lines that are left out. `python -m tests.system.test_tutorial` runs the
commands and writes what they print into the page.
"""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from tests.pages import fenced

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
WIDTH = 100
_SETUP = "make setup"
_GAP = "…"


def run(language: str, code: str, folder: Path) -> str:
    """What a block prints; a command that the next lines call refused may end with 1."""
    words = ["sh", "-e", "-c", code] if language == "sh" else [sys.executable, "-W", "error", "-c", code]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": str(WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    done = subprocess.run(
        words,
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    refused = done.returncode == 1 and done.stdout.startswith("error: ")
    assert done.returncode == 0 or refused, f"{code}\n{done.stdout}"
    return done.stdout.replace(f"{folder.resolve()}{os.sep}", "")


def masked(text: str) -> str:
    """Without what differs from run to run."""
    text = re.sub(r"^[a-z].* \.\.\.\n", "", text, flags=re.MULTILINE)  # progress of phases that lasted
    text = re.sub(r" (?:measured|calibrated)$", " basis", text, flags=re.MULTILINE)  # what says more
    text = re.sub(r"\b(?:[0-9a-f]{32}|[0-9a-f]{64})\b", "ID", text)
    text = re.sub(
        r"^survey-2023: .*$", "survey-2023: …", text, flags=re.MULTILINE
    )  # what the noise lets screen say
    schema = r"^(Before any table is taken|little seems to fall outside the schema): .*\n"
    text, judged = re.subn(
        schema, "", text, flags=re.MULTILINE
    )  # one of them, above or below, as the noise has it
    text = "The schema is judged.\n" * judged + text
    text = re.sub(
        r"(^  values of .*\n)+", "values of …\n", text, flags=re.MULTILINE
    )  # the columns that are off most
    text = re.sub(r"\d[\d,]*(\.\d+)?(e-?\d+)?", "#", text)
    return " ".join(re.sub(r"[━─]+", "─", text).split())


def shown(expected: str, actual: str) -> bool:
    """Whether a text block shows the output, up to what is masked or left out."""
    parts = [re.escape(masked(part)) for part in re.split(rf"^{_GAP}\n", expected, flags=re.MULTILINE)]
    return re.fullmatch(".*".join(parts).replace(".*", " ?.* ?"), masked(actual)) is not None


def ran(text: str, folder: Path) -> list[tuple[re.Match[str], str]]:
    """The text blocks that show an output, each with the output."""
    found = fenced(text)
    outputs: dict[int, str] = {}
    for i, block in enumerate(found):
        if block[1] in ("sh", "py") and _SETUP not in block[2]:
            outputs[i + 1] = run(block[1], block[2], folder)
    for i, said in outputs.items():
        if said and (i == len(found) or found[i][1] != "text"):
            raise AssertionError(f"the page does not show what this prints:\n{found[i - 1][2]}\n{said}")
    return [(found[i], said) for i, said in outputs.items() if said]


def test_the_tutorial_word_for_word(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    checked = ran(text, tmp_path)
    for block, said in checked:
        assert shown(block[2], said), f"shown:\n{block[2]}\nprinted:\n{said}"
    assert {block.start() for block, _ in checked} == {b.start() for b in fenced(text) if b[1] == "text"}
    for name in ("release.evaluation/report.html", "release.estimate/estimate.json", "budget.sqlite"):
        assert (tmp_path / name).is_file()


def test_the_first_block_is_how_to_set_up() -> None:
    first = fenced(PAGE.read_text(encoding="utf-8"))[0]
    assert first[2].startswith(_SETUP)
    assert re.search(r"^setup:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_masks_hide_numbers_and_nothing_else() -> None:
    assert shown("took 3 s\n", "took  12.5 s\n")
    assert shown("a\n…\nd 1\n", "a\nb\nc\nd 2\n")
    assert shown("a\n…\n", "a\nb\n")
    assert shown("ε = 1: a long\n  line\n", "ε = 2: a long line\n")
    assert not shown("took 3 s\n", "lasted 3 s\n")
    assert not shown("a\n…\nd\n", "a\nb\nc\n")
    assert not shown("a\n", "a\nb\n")


def test_the_errors_that_are_cited_are_the_measured_ones() -> None:
    """The table in `choosing.md` against the benchmark's: errors of synthetic rows at ε = 1."""
    names = {"unbiased": "adult_pub025", "women": "adult_pub100"}
    names |= {"TITANIC": "titanic", "SALARY": "salary", "FIRE": "fire"}
    measured = {}
    for cells in _cells((ROOT / "benchmarks/results/accuracy.md").read_text(encoding="utf-8")):
        pair, method, epsilon, _, error, *_ = cells
        if epsilon == ("0" if method == "public" else "1"):
            measured[pair, method] = error.partition(" ± ")[0]
    page = (ROOT / "docs/choosing.md").read_text(encoding="utf-8")
    (_, *methods), _, *cited = _cells(page[page.index("| private and public table |") :].split("\n\n", 1)[0])
    assert len(cited) == len(names)
    for title, *errors in cited:
        pair = next(names[word] for word in names if word in title)
        for method, error in zip((m.strip("`") for m in methods), errors, strict=True):
            # The private side of the ADULT pairs is one table.
            home = "adult_pub025" if pair == "adult_pub100" and method in ("aim", "mst") else pair
            assert measured[home, method] == error, (title, method)


def _cells(text: str) -> list[list[str]]:
    """The rows of a table."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def rewritten(text: str, folder: Path) -> str:
    """The page with what the commands print now; blocks with gaps are kept if they still fit."""
    for block, said in reversed(ran(text, folder)):
        if _GAP not in block[2]:
            lines = [line.rstrip() for line in said.rstrip().splitlines()]
            broken = [part for line in lines for part in _broken(line)]
            text = text[: block.start(2)] + "\n".join(broken) + "\n" + text[block.end(2) :]
        elif not shown(block[2], said):
            raise SystemExit(f"edit this by hand:\n{block[2]}\nprinted:\n{said}")
        else:
            text = text[: block.start(2)] + _with_gaps(block[2], said) + text[block.end(2) :]
    return text


def _broken(line: str) -> list[str]:
    is_table = re.match(r"[┏┃┡│└]", line)
    return [line] if is_table or not line else textwrap.wrap(line, WIDTH, subsequent_indent="  ")


def _with_gaps(expected: str, said: str) -> str:
    """The parts between the gaps, each with today's lines."""
    lines, at, made = said.rstrip().splitlines(), 0, []
    for part in re.split(rf"^{_GAP}\n", expected, flags=re.MULTILINE):
        wanted = masked(part)
        begin, end = next(
            (i, j)
            for i in range(at, len(lines) + 1)
            for j in range(i, len(lines) + 1)
            if masked("\n".join(lines[i:j])) == wanted
        )
        made.append("".join(f"{p}\n" for line in lines[begin:end] for p in _broken(line.rstrip())))
        at = end
    return f"{_GAP}\n".join(made)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        PAGE.write_text(rewritten(PAGE.read_text(encoding="utf-8"), Path(name)), encoding="utf-8")
