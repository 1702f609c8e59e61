"""Harbor-format task folders: what is in them (`folder`, `sections`), and what can be carried out of it (`limits`).

    task.toml  instruction.md  environment/  solution/solve.sh  tests/test.sh  [steps/<name>/...]

`environment/` makes the working folder, `tests/` is copied in only after the agent ended, and `tests/test.sh` leaves the
reward in `/logs/verifier/reward.json` or `reward.txt`. Sections and keys of task.toml that are not known are ignored here;
`openforge tasks check` names them.
"""

from shared.task.apart import Apart, apart
from shared.task.digest import folder_digest
from shared.task.family import family_of, name_and_family
from shared.task.folder import Step, Task, list_tasks, load_task
from shared.task.limits import refuse, unsupported
from shared.task.variables import expand

__all__ = [
    "Apart", "Step", "Task", "apart", "expand", "family_of", "folder_digest", "list_tasks", "load_task", "name_and_family",
    "refuse", "unsupported",
]  # fmt: skip
