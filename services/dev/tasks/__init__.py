"""`openforge tasks`: sets that others wrote become task folders, and what is wrong with a task is found out."""
