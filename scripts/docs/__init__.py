"""Writes the pages, and parts of pages, of docs/ that the code says: ``python -m scripts.docs``. A test compares the two."""
