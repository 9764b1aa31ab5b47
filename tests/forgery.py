"""What a forger does who can write files: change a release and make its certificate list the changed files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openprior.releases.certificate import Certificate
from openprior.releases.folder import seal

__all__ = ["rewrite", "seal_anew"]


def seal_anew(folder: Path) -> None:
    """The certificate lists the files as they are now."""
    path = folder / "certificate.json"
    certificate = Certificate.from_json(path.read_bytes())
    path.unlink()
    seal(folder, certificate)


def rewrite(text: str, change: Callable[[dict[str, Any]], object]) -> str:
    """A certificate with other values, written just as certificates are; the statement stays as it was."""
    values = json.loads(text)
    change(values)
    return json.dumps(values, indent=1, ensure_ascii=False)
