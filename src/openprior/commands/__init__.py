"""The commands of the command line, a file for each group of them."""
