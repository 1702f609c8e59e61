"""`openforge status`: how a deployment does, and what is broken."""
