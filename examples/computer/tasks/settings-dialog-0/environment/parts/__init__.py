"""What is copied into tasks and runs there: Python 3.11's standard library alone, and Tk for a desktop."""
