"""Every run on a line of a JSON file, so that the command can be stopped at any time and goes on where it was."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Asked:
    """What a run is of. The version is the tool's, the fingerprint that of our own code that it depends on."""

    tool: str
    version: str
    fingerprint: str
    method: str
    table: str
    epsilon: float
    delta: float
    seed: int


@dataclass(frozen=True)
class Run:
    """What was asked, the limit in seconds, and what came of it: errors, or words."""

    asked: Asked
    limit: float
    two: float = 0.0
    three: float = 0.0
    seconds: float = 0.0
    mb: float = 0.0
    words: str = ""
    timed_out: bool = False

    @property
    def is_done(self) -> bool:
        """It left rows."""
        return not self.words

    def holds(self, limit: float) -> bool:
        """Whether it need not be done again: one that was stopped is, if there is more time now."""
        return not self.timed_out or self.limit >= limit


@dataclass(frozen=True)
class Kept:
    """The file."""

    path: Path

    def runs(self) -> Iterator[Run]:
        """All of them, oldest first; a line that was broken off by an end of the machine is passed over."""
        if not self.path.exists():
            return
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                said = json.loads(line)
            except json.JSONDecodeError:
                continue
            yield Run(**(said | {"asked": Asked(**said["asked"])}))

    def find(self, asked: Asked, limit: float) -> Run | None:
        """The last run of this that holds under this limit."""
        return next(
            (run for run in reversed([*self.runs()]) if run.asked == asked and run.holds(limit)), None
        )

    def add(self, run: Run) -> None:
        """One line more."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run)) + "\n")
