"""Solutions of the families, which do as a user would; copied into a task's solution/. Standard library only."""
