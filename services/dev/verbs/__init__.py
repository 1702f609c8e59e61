"""The verbs of the command that belong together, a file a word."""
