"""What runs inside vLLM, and the command that starts it."""
