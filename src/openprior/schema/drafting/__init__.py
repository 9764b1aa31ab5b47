"""A first schema, a column at a time, from counts of a public table's distinct values.

distinct.py      the distinct values of every column, counted in one pass
guess.py         what kind of column the values make
categories.py    values that are listed: texts, codes, yes and no
numeric.py       numbers: a list, a code each, or bins
sentinels.py     numbers that stand for none: -9, 999
resolution.py    the step that all values are multiples of
dates.py         dates and times in bins
formats.py       texts that would be numbers or dates if they were read otherwise
observed.py      whether the values are those of an identifier
remarks.py       what a draft says of a column
"""
