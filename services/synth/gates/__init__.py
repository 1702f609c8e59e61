"""What a task must pass, cheapest first: one file a gate."""
