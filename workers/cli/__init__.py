"""The command line: `placet`, a file for each group of commands and what they print."""
