"""The version before, from its commit, so that speed is a ratio that holds on any machine.

A race runs one module of this folder in two processes that take turns, one with this version of openprior and one with
the former, both under the same conditions: not pinned to a core, with whatever else the machine does. The former
version is unpacked once into the folder of temporary files, with a compile cache of its own.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

__all__ = ["FORMER", "in_a_process", "unpacked"]

ROOT = Path(__file__).parents[1]
FORMER = "1327cb7"
"""The last commit before Tilt was made faster."""


def unpacked(commit: str = FORMER) -> Path:
    """The package's source at a commit."""
    folder = Path(tempfile.gettempdir()) / f"openprior-at-{commit}"
    if not folder.is_dir():
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit, "src"], check=True, capture_output=True
        ).stdout
        draft = Path(tempfile.mkdtemp(dir=folder.parent))
        with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
            packed.extractall(draft, filter="data")
        draft.rename(folder)
    return folder / "src"


def in_a_process(
    module: str, *words: str, source: Path | None = None, environment: dict[str, str] | None = None
) -> Any:
    """The last line of `python -m module words`, which is JSON; with this version, or with that of `source`."""
    paths = [str(source or ROOT / "src"), str(ROOT)]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **(environment or {})}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, *words],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
        cwd=ROOT,
    )
    return json.loads(done.stdout.splitlines()[-1])
