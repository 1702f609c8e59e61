"""New weights from the learner into the engines, proven before they serve."""
