"""``python -m tests.fuzz --case 1234`` repeats a case; ``--from 0 --to 1000`` walks a range."""

import argparse
import time

from tests.fuzz.runner import verdict

parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
parser.add_argument("--case", type=int, help="one case, by its number")
parser.add_argument("--from", type=int, default=0, dest="first")
parser.add_argument("--to", type=int, default=1000, dest="last")
asked = parser.parse_args()
numbers = range(asked.first, asked.last) if asked.case is None else [asked.case]
begin, bad = time.perf_counter(), 0
for number in numbers:
    start = time.perf_counter()
    what, problem = verdict(number)
    seconds = time.perf_counter() - start
    if problem is not None:
        bad += 1
        print(f"case {number} ({what[:300]})\n{problem}\n", flush=True)
    elif asked.case is not None or seconds > 1:
        print(f"case {number} ({what[:300]}): well, in {seconds:.2f} s", flush=True)
print(f"{len(numbers)} cases, {bad} of them bad, in {time.perf_counter() - begin:.1f} s")
