"""What a run remembers, so that it goes on exactly where it was killed."""
