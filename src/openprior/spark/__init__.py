"""The same kernel on a cluster. Executors count and post-process; all noise is drawn on the driver.

cluster.py     the session: started quietly, asked without its words reaching the user
reading.py     DataFrames and files as sources whose rows stay where they are
packing.py     small whole numbers on their way from Spark to Python, several to a word
counter.py     the engine: counting as a Spark job
by_group.py    work by group: a pure function of every item, on the executors
tasks.py       what runs on an executor: encode, limit, count
vectors.py     flat vectors of counts: how they travel, and how they are added
refusals.py    errors on their way from an executor to the driver
binary.py      rows of bytes as Arrow's binary values and back
"""
