"""Tasks over pages that are served locally, in a real browser."""
