"""dpmm: its pipelines without their preprocessing, which is for columns that are not coded yet."""

import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline
from exchange import Task, answer

PIPELINES = {"aim": AIMPipeline, "mst": MSTPipeline, "privbayes": PrivBayesPipeline}
# AIM gets the workload of all 3-way marginals, none left out for its size, and the size limit of its paper.
OPTIONS = {"aim": {"max_model_size": 80, "gen_kwargs": {"degree": 3, "max_cells": 10**15}}}


def make(task: Task) -> object:
    """As many rows as the table has: the pipeline wants to be told."""
    pipeline = PIPELINES[task.method](
        epsilon=task.epsilon,
        delta=task.delta,
        disable_processing=True,
        n_jobs=1,
        **OPTIONS.get(task.method, {}),
    )
    table = pd.DataFrame(task.rows, columns=list(task.sizes))
    pipeline.fit(table, domain=task.sizes, random_state=task.seed)
    return pipeline.generate(n_records=len(table), random_state=task.seed)[list(task.sizes)]


if __name__ == "__main__":
    answer(make)
