"""A script of an endpoint that makes assistant tasks: what a family of the domain would make, as a model would send it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from services.synth.domains.claw.families import FAMILIES
from services.synth.models.bases import base_of
from services.synth.models.workshop.order import read_built
from tests.scripted_models import Act, Asked, said

FAMILY = "mail-code"
CHECK = "tests/check.py"
SPOILT = "import os\n\nwith open(os.environ['LOGS_DIR'] + '/verifier/reward.txt', 'w') as f:\n    f.write('1')\n"
"""A check that an agent passes which does nothing."""


def number_of(asked: Asked) -> int:
    """Which task of a series a call is about."""
    found = re.search(r"number (\d+) of a series|Code of door (\d+)", asked.prompt)
    assert found, asked.prompt
    return int(found[1] or found[2])


def idea(number: int) -> dict[str, Any]:
    """The idea of a number."""
    return {
        "title": f"Code of door {number}", "brief": f"Find the code of door {number} in the mails and send it to who asked.",
        "environment": "a mailbox", "check": "the mail that was sent has the code", "skills": ["reading mail"],
    }  # fmt: skip


def built(number: int, *, spoilt: bool = False) -> dict[str, Any]:
    """The task of a number."""
    (family,) = (one for one in FAMILIES if one.name == FAMILY)
    with tempfile.TemporaryDirectory() as place:
        family.make(number, Path(place))
        whole = read_built(Path(place), base_of("claw"), 5)
    files = {file.path: file.content for file in whole.files} | ({CHECK: SPOILT} if spoilt else {})
    listed = [{"path": path, "content": content} for path, content in files.items()]
    return {"instruction": whole.instruction, "agent_minutes": 5, "files": listed}


def mended(number: int) -> dict[str, Any]:
    """What makes a spoilt task a good one."""
    files = [file for file in built(number)["files"] if file["path"] == CHECK]
    return {"cause": "the check gives 1 for nothing", "files": files, "removed": []}


def office(asked: Asked, *, spoilt: bool) -> Act:
    """The right answer, but for a check that is spoilt at first."""
    fields, number = set(asked.schema["properties"]) if asked.schema else set(), number_of(asked)
    if "brief" in fields:
        return said(idea(number))
    return said(mended(number) if "cause" in fields else built(number, spoilt=spoilt))
