"""Spark's Python daemon with openprior and numba imported: the workers that it forks need not import them again."""

if __name__ == "__main__":
    import pandas  # noqa: F401
    from pyspark.daemon import manager

    manager()
