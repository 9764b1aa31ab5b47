"""Private-PGM (McKenna, Sheldon & Miklau 2019): the graphical model closest to noisy marginals, with exact answers.

junction.py     the junction tree that a set of marginals needs, and how large it would be with one more
chordal.py      the compiled search for small cliques
clique_products.py  a clique as a product of three tables, so that its own need not be written down
propagation.py  message passing: a tree and its factors, written down as tables of integers
messages.py     the compiled passes through those tables
products.py     compiled products of matrices, of logarithms, and largest sums
fast_exp.py     e^x and log x as vector instructions
marginalisation.py  sums of tables, products of tables, and the maps between their cells
table_sums.py   the compiled loops of those
loss.py         how far a model is from its measurements, and how these are weighed
loss_loops.py   its compiled sums
estimation.py   the model of least loss
model.py        the model itself: answers, rows, files
elimination.py  marginals across cliques
evidence.py     the model where some columns have only some values
routes.py       where their attributes meet, and at what cost
row_cells.py    cells for rows: rounded, or drawn
"""
