"""A family of small programs that are wrong."""

from __future__ import annotations

import contextlib
import io
import random
import sys

from services.synth.domains.claw.draft import Draft, Level
from services.synth.domains.claw.families.common import python, wording
from services.synth.domains.claw.families.programs import PROGRAMS, Program
from services.synth.domains.claw.world import World

_CHECK = '''"""Runs {name}.py on examples."""

import subprocess
import sys

CASES = {cases}
for given, wanted in CASES:
    done = subprocess.run([sys.executable, "{name}.py"], input=given, capture_output=True, text=True)
    if done.stdout.split() != wanted.split():
        sys.exit(f"for {{given!r}} it prints {{done.stdout!r}}, not {{wanted!r}} {{done.stderr[-300:]}}")
print("all examples are right")
'''
_FIX = """
lines = open("{name}.py").read().splitlines(keepends=True)
for number, right in {mended!r}:
    lines[number] = right
open("{name}.py", "w").write("".join(lines))
subprocess.run(["python3", "check.py"], check=True)
"""


def fix(rng: random.Random, level: Level) -> Draft:
    """A program is put right; at the hard level the mail says that its number has changed, too."""
    world = World(rng, staff_count=4, client_count=2)
    world.noise(4)
    program, number = rng.choice(PROGRAMS), 0
    number = rng.randrange(program.lowest, program.lowest + 8)
    before = number + rng.randrange(1, 6) if level == "hard" else number
    right = program.source.replace("NUMBER", str(number))
    while True:
        bugs = _pick(rng, program, 1 if level == "easy" else 2)
        wrong = program.source.replace("NUMBER", str(before))
        for good, bad in bugs:
            wrong = wrong.replace(good, bad)
        cases = [_case(rng, program, right) for _ in range(8)]
        alone = [right.replace(good, bad) for good, bad in bugs]
        if all(_differs(source, cases[:3]) and _differs(source, cases[3:]) for source in (wrong, *alone)):
            break
    about = program.about.replace("NUMBER", str(number))
    if level == "hard":
        boss = rng.choice(world.staff)
        world.mail(
            boss,
            f"About {program.name}.py",
            f"Hi {world.me.first},\nfrom now on its number is {number}, no longer {before}.\n{boss.first}",
        )
        about = program.about.replace("NUMBER", "N") + f", where N is the number that {boss.first} has told by mail"
    files = {f"{program.name}.py": wrong, "check.py": _CHECK.format(name=program.name, cases=cases[:3])}
    text = wording(
        rng,
        f"The program `{program.name}.py` {about}. It reads lines from its standard input. But it is wrong. Put it right; "
        f"`python3 check.py` tries it on "
        "a few examples and must stay as it is. It will be tried on others, too.",
        f"`{program.name}.py` has a bug or two. What it should do: it reads lines, and {about}. Mend it, so that it is "
        f"right for every input, not "
        "only for the examples of `check.py`, which you may run but not change.",
    )
    lines = zip(wrong.splitlines(keepends=True), right.splitlines(keepends=True), strict=True)
    mended = [(n, good) for n, (bad, good) in enumerate(lines) if bad != good]
    check = f"expect.program_gives(['{program.name}.py'], {cases[3:]!r})"
    return Draft(text, world.done(), python(_FIX.format(name=program.name, mended=mended)), [check], files, kept=["check.py"])


def _pick(rng: random.Random, program: Program, count: int) -> list[tuple[str, str]]:
    """Bugs at different places of a program."""
    usable = [bug for bug in program.bugs if program.source.count(bug[0]) == 1]
    first = rng.choice(usable)
    apart = [bug for bug in usable if bug[0] not in first[0] and first[0] not in bug[0] and bug[0] not in first[1]]
    return [first, *rng.sample(apart, count - 1)]


def _case(rng: random.Random, program: Program, right: str) -> tuple[str, str]:
    given = "".join(program.line(rng) + "\n" for _ in range(rng.randrange(2, 4)))
    return given, output(right, given)


def _differs(source: str, cases: list[tuple[str, str]]) -> bool:
    """Whether a program is wrong for one of the cases."""
    return any(output(source, given).split() != wanted.split() for given, wanted in cases)


def output(source: str, given: str) -> str:
    """What one of the programs above prints."""
    printed, stdin = io.StringIO(), sys.stdin
    sys.stdin = io.StringIO(given)
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(source, "program", "exec"), {"__name__": "program"})
    except (ArithmeticError, IndexError, ValueError, TypeError) as e:
        return f"{printed.getvalue()}{type(e).__name__}"
    finally:
        sys.stdin = stdin
    return printed.getvalue()
