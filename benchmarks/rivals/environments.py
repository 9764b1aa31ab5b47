"""One environment per tool, so that no tool's versions are another's, and none of them touches ours.

They are under the folder that OPENPRIOR_RIVALS names, or else in the user's cache, and are made once. What pip is to
install from is pip's own setting.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.rivals.tools import Tool

__all__ = ["Environment", "NotInstalled", "cache_folder", "environment_of", "last_line"]


class NotInstalled(Exception):
    """A tool that cannot be had here, and why."""


@dataclass(frozen=True)
class Environment:
    """The interpreter that has a tool, and the version that it has."""

    python: str
    version: str


def cache_folder() -> Path:
    """Where environments and runs are kept."""
    named = os.environ.get("OPENPRIOR_RIVALS")
    return Path(named) if named else Path.home() / ".cache" / "openprior-rivals"


def environment_of(tool: Tool) -> Environment:
    """The tool's environment, made if it is not there yet."""
    if tool.is_at_home:
        return Environment(sys.executable, _version(sys.executable, tool.package))
    folder = cache_folder() / "environments" / tool.name
    made = folder / "installed.json"
    if not (made.exists() and json.loads(made.read_text()) == list(tool.installs)):
        _make(folder, tool)
        made.write_text(json.dumps(list(tool.installs)))
    python = str(folder / "bin" / "python")
    return Environment(python, _version(python, tool.package))


def _make(folder: Path, tool: Tool) -> None:
    """venv and pip."""
    python = _interpreter(tool)
    shutil.rmtree(folder, ignore_errors=True)
    print(f"making the environment of {tool.name}", file=sys.stderr)
    steps = [
        [python, "-m", "venv", str(folder)],
        [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *tool.installs],
    ]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotInstalled(last_line(done.stderr))


def _interpreter(tool: Tool) -> str:
    """The first of the tool's Pythons that is here and starts."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in tool.pythons:
        places = [shutil.which(f"python{version}"), *sorted(kept.glob(f"{version}.*/bin/python"))]
        for place in places:
            # A launcher may be there for a Python that is not.
            if place and not subprocess.run([place, "-c", ""], capture_output=True, check=False).returncode:
                return str(place)
    raise NotInstalled(f"needs Python {' or '.join(tool.pythons)}")


def _version(python: str, package: str) -> str:
    """What the environment says it has."""
    ask = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalled(last_line(done.stderr))
    return done.stdout.strip()


def last_line(errors: str) -> str:
    """The last line that says something, short, without places of this machine, fit for a cell of a table."""
    lines = [line.strip() for line in errors.splitlines() if any(c.isalpha() for c in line)]
    line = lines[-1] if lines else "no message"
    line = line.replace(str(cache_folder()), "…").replace(str(Path.home()), "~").replace("|", "/")
    return line if len(line) <= 120 else line[:119] + "…"
