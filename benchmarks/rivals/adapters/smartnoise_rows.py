"""SmartNoise Synth: its synthesizers, with the categories given, so that nothing is spent on finding them."""

import random

import mbi_drawing
import numpy as np
from exchange import Task, answer
from snsynth import Synthesizer
from snsynth.transform import LabelTransformer, TableTransformer

mbi_drawing.mend()

# AIM gets the workload of all 3-way marginals, none left out for its size. MWEM takes no delta.
OPTIONS = {
    "aim": {"degree": 3, "max_cells": 10**15},
    "aim-2way": {},
    "mst": {},
    "mwem": {"marginal_width": 3},
}


def categories(size: int) -> LabelTransformer:
    """A column's codes, which are public: fitted to the list of them, not to the rows."""
    known = LabelTransformer(nullable=False)
    known.fit(list(range(size)))
    return known


def make(task: Task) -> object:
    """As many rows as the table has: the synthesizer wants to be told."""
    random.seed(task.seed)
    np.random.seed(task.seed)  # noqa: NPY002 - it selects with numpy's global generator
    name = task.method.split("-")[0]
    delta = {} if name == "mwem" else {"delta": task.delta}
    synthesizer = Synthesizer.create(name, epsilon=task.epsilon, **delta, **OPTIONS[task.method])
    table = TableTransformer([categories(size) for size in task.sizes.values()])
    synthesizer.fit([tuple(row) for row in task.rows.tolist()], transformer=table, preprocessor_eps=0.0)
    return synthesizer.sample(len(task.rows))


if __name__ == "__main__":
    answer(make)
