"""`openforge runs prune`."""
