"""`make bench-trainer`: what a training step costs beyond veRL, and what a push of weights costs.

groups.py a step's groups as they come from the bus · bare.py veRL's own calls, caught and made again · steps.py both in turn ·
pushes.py new weights into a real vLLM · transfer.py files of many sizes · report.py what it says, and the bounds · __main__.py
"""
