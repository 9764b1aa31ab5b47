"""Spark's Python daemon with openprior imported: the workers that it forks need not import it one by one."""

import pandas  # noqa: F401
from pyspark.daemon import manager

import openprior.spark.executors  # noqa: F401

if __name__ == "__main__":
    manager()
