"""A tiny agent that learns to look things up instead of guessing, on two cores. README.md tells the story."""
