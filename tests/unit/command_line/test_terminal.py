"""What is printed is obeyed by no terminal, whatever columns and files are called."""

import pytest

from openprior.command_line.terminal import print_table, say

EVIL = "age\x1b[2J\x9b1A\r[bold]\nerror: none"


def test_a_line_stays_one_line_and_is_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"  column: {EVIL}")
    say(EVIL, err=True)
    out, err = capsys.readouterr()
    assert out == "  column: age?[2J?1A?[bold]?error: none\n"
    assert err == "age?[2J?1A?[bold]?error: none\n"


def test_a_table_shows_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(EVIL, (EVIL, "error"), [(EVIL, "1.5"), ("sex", "2")])
    out = capsys.readouterr().out
    assert out.count("age?[2J?1A?[bold]?error: none") == 3
    assert all(line.isprintable() for line in out.split("\n"))
