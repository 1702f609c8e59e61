"""The learner on the nodes of a Ray cluster.

classes.py this project's settings as veRL's, with FSDP2 or Megatron · nodes.py room on a cluster · worker.py one process ·
group.py all of them as one worker
"""
