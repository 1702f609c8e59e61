"""`openforge dev`: a whole stack on one machine, as processes of one supervisor, with the servers that come as Python wheels."""
