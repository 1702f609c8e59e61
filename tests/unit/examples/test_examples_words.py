"""Episodes in the words of the real programs, and the adapters that make those programs say them."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest

from examples.lookup.demo import HERE
from examples.lookup.family import demonstrate, make_task
from examples.lookup.words import SUBMIT, SYSTEM, WORDINGS, Message
from services.orchestrator.harnesses.adapter import load
from services.orchestrator.harnesses.library import adapter_file

OWN = {file.stem: file for file in (HERE / "harnesses").glob("*.toml")}


def episode(harness: str, commands: int) -> list[Message]:
    """An episode with so many commands of the teacher."""
    rng = random.Random(0)
    while True:
        messages = demonstrate(make_task(rng, "train"), rng).messages
        if len(messages) == 2 * commands + 2:
            return WORDINGS[harness](messages, rng)


def commands_of(messages: list[Message]) -> list[str]:
    return [c["function"]["arguments"]["command"] for m in messages for c in m.get("tool_calls", [])]


def test_mini_ends_by_a_command_and_has_a_system_message() -> None:
    plain, mini = episode("react", 3), episode("mini", 3)
    assert mini[0] == {"role": "system", "content": SYSTEM}
    assert mini[1:-1] == plain[:-1]
    assert commands_of(mini) == [*commands_of(plain), f"echo {SUBMIT}"]


def test_pi_tells_where_it_is_and_leaves_line_ends() -> None:
    plain, pi = episode("react", 3), episode("pi", 3)
    assert pi[0]["content"].splitlines()[0::2] == [SYSTEM, "Current working directory: /app"]
    results = [m["content"] for m in pi if m["role"] == "tool"]
    assert results == [*(f"{m['content']}\n" for m in plain if m["role"] == "tool" and m["content"] != "ok"), "(no output)"]
    assert commands_of(pi) == commands_of(plain)
    assert pi[-1] == plain[-1]


def test_every_wording_but_the_built_in_agents_has_an_adapter() -> None:
    assert OWN.keys() == WORDINGS.keys() - {"react"}


@pytest.mark.parametrize("file", OWN.values(), ids=OWN)
def test_an_adapter_starts_the_program_that_is_installed_with_the_system_prompt_of_the_demonstrations(file: Path) -> None:
    """Its file replaces the built-in one of this name, and `openforge harness install` puts the latter's program in place."""
    own, built_in = (tomllib.loads(f.read_text())["install"] for f in (file, adapter_file(file.stem)))
    assert own == {key: value for key, value in built_in.items() if key != "lock"}
    assert f'"{SYSTEM}"' in file.read_text()
    assert load(file).argv[0] == load(adapter_file(file.stem)).argv[0]
