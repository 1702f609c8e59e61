"""The mock office: what is copied into tasks. Standard library of Python 3.11 alone, as tasks run on that."""
