"""The command line: thin. One file for each family of commands, which read arguments, call the library and print."""
