"""`openforge check --dry-run`: would the learner fit on its GPUs, and would veRL take its settings? Nothing is loaded.

shape.py the model, from its config.json · sizes.py what must divide · memory.py what a GPU must hold · report.py all of it
"""

from services.trainer.dryrun.report import Line, dry_run

__all__ = ["Line", "dry_run"]
