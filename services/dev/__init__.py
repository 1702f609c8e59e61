"""`openforge dev`: a whole stack on one machine, as processes of one supervisor, with servers that come as wheels."""
