"""A table larger than what may be held in memory is counted in one pass; its rows never sit there together."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

CODE = """
import sys
from pathlib import Path
import openprior as op
from openprior.tables.encode import Encoder
from openprior.tables.source import open_source
from openprior.privacy.vault import Vault

def memory(which):
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(which)) / 1024

schema = op.Schema.from_sizes({f"c{i}": 20 for i in range(15)})
first = sorted(Path(sys.argv[1]).iterdir())[0]
for folder in (first, Path(sys.argv[1])):
    vault = Vault(Encoder(schema, open_source(folder), private=True))
    vault.announce(op.all_marginals(2).on(schema.domain).marginals)
    print(vault.rows, memory("VmRSS"))
print(0, memory("VmHWM"))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    piece = pa.table({f"c{i}": rng.integers(0, 20, 1_000_000) for i in range(15)})
    for i in range(30):
        parquet.write_table(piece, tmp_path / f"part{i:02}.parquet")
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], check=True, capture_output=True, text=True
    )
    (few, before), (many, _), (_, most) = (map(float, line.split()) for line in done.stdout.splitlines())
    assert (few, many) == (1e6, 3e7)
    # The codes alone would be 450 MB, the integers as they come 3,600 MB.
    assert most - before < 200
