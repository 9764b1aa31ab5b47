"""What should be right: the questions that a release is to answer well.

workload.py       marginals and weighted sets of them, and plans that become one on a domain
quotes.py         names in a text, and the double quotes that keep one together
frozen.py         arrays that nobody can change between the check of a question and its answer
queries.py        0/1 queries over one marginal: ranges, prefixes, predicates
query_text.py     how they are written
query_file.py     queries from a TOML or CSV file
query_labels.py   labels in them, which become codes before they are asked, and codes that become labels again
"""
