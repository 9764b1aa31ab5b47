"""`python -m openprior`: the command line, where the command itself is not on the path."""

from openprior.command_line.main import main

if __name__ == "__main__":
    main()
