"""`openforge eval`: what a model comes to on a set of tasks, and whether two evaluations differ."""
