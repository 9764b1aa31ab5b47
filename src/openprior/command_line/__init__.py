"""The command line: thin. It reads arguments, calls the library and prints.

main.py            the program: families of commands, errors as one line
program.py         every option at most once
releasing.py       release, check, mechanisms
priors.py          prior, cache
asking.py          answers, rows
estimating.py      figures, replicates
guiding.py         plan, screen, tune
choosing.py        choose-public, divergences
evaluating.py      evaluate, estimate
auditing.py        audit
ledgers.py         ledger show, budget, close
schemas.py         schema draft, check
demo.py            demo
demonstration.py   what the demo does
arguments.py       what words on the command line mean
options.py         options that mean the same everywhere
reading_options.py options on how text is written in the files
result_files.py    what commands that ask a release have in common
terminal.py        what a person sees: JSON, tables, warnings, bugs
"""
