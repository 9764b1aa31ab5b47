"""Compiled loops, before they are needed: once per machine, side by side, while tables are read.

cache_place.py   where compiled loops are kept
loop_list.py     which loops a mechanism calls, read from loops.txt, which `make loops` writes
loop_types.py    the types of arguments as words
ahead.py         processes that compile what is missing, and waiting for them
helper.py        what such a process does
"""
