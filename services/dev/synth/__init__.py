"""`openforge synth`: tasks are made on a stack of this machine, and what became of them is shown."""
