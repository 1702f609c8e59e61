"""A whole stack at work while everything in it is killed again and again; what is left is compared with what the engine did."""
