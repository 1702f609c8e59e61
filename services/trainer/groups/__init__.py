"""Which groups are asked for, when, and which of them a step learns from."""
