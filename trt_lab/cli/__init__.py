"""The command line: one command a file, each a thin caller of a session or of one layer."""
