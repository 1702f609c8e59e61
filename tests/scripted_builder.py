"""A script of an endpoint that makes tasks: "copy word N to out.txt". What it knows of a call is in the call."""

from __future__ import annotations

import re
from typing import Any

from services.synth.model import Domain
from services.synth.models.bases import Base
from tests.scripted_models import Act, Asked, said

TEST = """\
#!/bin/sh
logs=${LOGS_DIR:-/logs}/verifier
if [ "$(cat out.txt 2>/dev/null)" = "$(cat "${TESTS_DIR:-/tests}/wanted")" ]; then echo 1; else echo 0; fi > "$logs/reward.txt"
"""
SPOILT = TEST.replace("echo 0", "echo 1")
"""A check that an agent passes which does nothing."""
SOLVE = "#!/bin/sh\nsed -n 2p words.txt > out.txt\n"


def plain_base(_: Domain = "claw") -> Base:
    """Files and a shell, and no service."""
    files = {"environment/Dockerfile": "FROM debian:bookworm-20250811-slim\nWORKDIR /app\nCOPY . ./\n"}
    return Base(files, frozenset(), {"metadata": {"domain": "claw"}}, ("tests/test.sh", "solution/solve.sh"), "A shell.")


def number_of(asked: Asked) -> int:
    """Which task of a series a call is about."""
    found = re.search(r"number (\d+) of a series|Copy word (\d+)", asked.prompt)
    assert found, asked.prompt
    return int(found[1] or found[2])


def idea(number: int) -> dict[str, Any]:
    """The idea of a number."""
    return {
        "title": f"Copy word {number}", "brief": f"Write the word on line 2 of words.txt, which is word {number}, to out.txt.",
        "environment": "words.txt", "check": "out.txt holds the word", "skills": ["reading"],
    }  # fmt: skip


def built(number: int, test: str = TEST) -> dict[str, Any]:
    """The task of a number."""
    files = {
        "environment/words.txt": f"one\nword-{number}\nthree\n", "tests/wanted": f"word-{number}", "tests/test.sh": test,
        "solution/solve.sh": SOLVE,
    }  # fmt: skip
    listed = [{"path": path, "content": content} for path, content in files.items()]
    return {"instruction": f"Write line 2 of words.txt to out.txt (task {number}).", "agent_minutes": 2, "files": listed}


MENDED = {"cause": "the check gave 1 for nothing", "files": [{"path": "tests/test.sh", "content": TEST}], "removed": []}


def good(asked: Asked) -> Act:
    """Every answer is right."""
    fields = set(asked.schema["properties"]) if asked.schema else set()
    if "brief" in fields:
        return said(idea(number_of(asked)))
    if "instruction" in fields:
        return said(built(number_of(asked)))
    assert "cause" in fields, asked
    return said(MENDED)
