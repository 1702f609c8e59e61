"""The learner on nodes of GPUs, with FSDP2 or Megatron.

Its settings are made and checked without GPUs (`openforge check --dry-run`). Starting it is not built yet.

classes.py this project's settings as veRL's
"""
