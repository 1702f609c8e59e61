"""Tasks made by models: a client that pays for no answer twice, and a maker and a judge that ask it."""
