"""`openforge export`: rollouts of a run in the formats of others."""
