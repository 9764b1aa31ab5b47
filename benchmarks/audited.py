"""The audit of every mechanism as a table: `python -m benchmarks.audited`. Writes benchmarks/results/audit.md."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "audit.md"
RUNS, SEED = 6, 0
HEADER = f"""# Mechanisms, replayed on neighbours

What `openprior audit --runs {RUNS} --seed {SEED}` found: recorded outcomes, replayed on neighbouring tables (made up,
Δ = 1, 2 and 3). *moved*: the furthest that a statistic or a level moved, over its declared sensitivity; *cost*: of that
move under the noise drawn, over what was charged. Both may reach 1 and not pass it. docs/privacy.md says what that
shows and what it cannot. Written by `python -m benchmarks.audited`.

| mechanism | δ | relation | runs | events | moved | cost | verdict |
|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Run the audit and write the table, one line per mechanism, δ and relation."""
    command = [
        str(Path(sys.executable).with_name("openprior")),
        "audit",
        "--runs",
        str(RUNS),
        "--seed",
        str(SEED),
        "--json",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    lines: dict[tuple[str, str, str], list[dict[str, object]]] = {}
    for row in found["rows"]:
        lines.setdefault((row["mechanism"], row["delta"], row["relation"]), []).append(row)
    table = []
    for (mechanism, delta, relation), rows in lines.items():
        runs, events = (f"{sum(int(str(r[key])) for r in rows):,}" for key in ("runs", "events"))
        moved, cost = (f"{max(float(str(r[key])) for r in rows):.6f}" for key in ("movement", "cost"))
        verdict = "ok" if all(r["ok"] for r in rows) else "VIOLATION"
        table.append(
            f"| {mechanism} | {delta} | {relation} | {runs} | {events} | {moved} | {cost} | {verdict} |"
        )
    runs, events = (sum(r[key] for r in found["rows"]) for key in ("runs", "events"))
    noise = f"{found['noise']:.3f}"
    faults = len(found["faults"])
    summary = (
        f"{runs:,} runs, {events:,} events, {faults} faults; noise asked for over noise observed {noise}"
    )
    RESULTS.write_text(
        "\n".join([HEADER, *table, "", f"{summary} ({datetime.now(UTC):%Y-%m-%d}).", ""]), encoding="utf-8"
    )
    print(summary)


if __name__ == "__main__":
    main()
