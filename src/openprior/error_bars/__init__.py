"""Error bars for every answer of a finished model, from one measurement of how wrong the model is.

The idea: however many cells a model answers, the mean of its errors is a number that one person moves by two rows. So
for a small share of the budget the errors of all cells are measured, summed by stratum: by how large the estimate is
(`strata.py`). How large an error is expected is then a smooth curve over the estimate (`error_curve.py`). It begins as
what was learnt on other tables (`curve_prior.py`) and follows the measurement as far as its noise lets it; what is left
unsure widens the bars (`widening.py`). `error_question.py` asks the curator; `bars.py` is the result, which a release
keeps.

What is promised is an average: of the cells of a stratum, 95 in 100 of the intervals hold the true count. It is no
promise for a cell that somebody picks because it looks odd.
"""
