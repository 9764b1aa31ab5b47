"""What is handed over, and how it is written and read back.

release.py          from a private table to a release, end to end
public_prior.py     a prior that is kept, in place of the public table
result.py           what is handed over, and what one can ask of it
certificate.py      the proof of what it cost, which anyone can recheck
table_files.py      tables as Parquet or CSV, from which every value comes back as it was
error_step.py       the last step: how wrong the finished model is
cell_sizes.py       by what size of its cells a model's errors go
group_tables.py     counts by group and value
quantities.py       counts, means, shares, quantiles and ratios by group, and how far each may be off
compared.py         groups beside one of them
estimates.py        figures by group, with intervals
replicated_rows.py  synthetic tables that differ as the release is uncertain
combine.py          analyses of such tables, put together
drawn_rows.py       the rows of a release that is being made, in memory or in files
row_parts.py        synthetic rows as many files, where they are too many for one
parquet_files.py    Parquet files that hold what is in the table and nothing else
description.py      what people say about a release: title, about, contact
measurements.py     every noisy number, as a file
intervals.py        what measurements alone say about true counts
answers.py          answers as tables, with labels and intervals
query_answers.py    the answers to queries that were measured
which_answers.py    which answers are written: of the workload, those that were measured, or none
answers_file.py     answers to many marginals, and to queries, as one table, a part at a time
answer_digits.py    how precisely they are written
more_rows.py        more rows, fewer, or rows with given values
frames.py           rows for pandas and Polars
noticed.py          what a release shows of its own losses
view.py             what another table says beside a release
seal.py             the digest of every file, so that a folder is what was written or is refused
folder.py           the release folder: written whole or not at all, read with suspicion
check.py            whether a release is right: its seal, its arithmetic, and that its noise was secure
"""
