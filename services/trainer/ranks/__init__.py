"""A learner of several processes on this machine, each a rank of one process group over gloo.

group.py the ranks as one worker, with the methods of veRL's own worker · child.py one rank
"""
