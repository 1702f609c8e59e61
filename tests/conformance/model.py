"""The model of the conformance suite: it knows from the prompt which scene it is in and how far, and says what comes next."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.programs import Program, Tool
from tests.conformance.scenes import TEXT, mark
from tests.engine.real_prompt import Prompt, Say, Turn

_MARK = re.compile(r"\[\[(?P<kind>main|sub):(?P<harness>[a-z0-9-]+):(?P<scene>[a-z]+)\]\]")
_ODD = (" , ", " :  ")  # separators of JSON that nobody writes
_LONG = " ".join(f"Sentence {n} of a long answer, with {TEXT}" for n in range(12))
_STEPS = ("echo one > one.txt", "cat one.txt > two.txt")
_MUCH = 'for i in $(seq 400); do echo "$i: the configuration of the orchestrator says where its sandboxes are"; done'
_SUMMARY = "<summary>\nNumbers were printed; the rest is still to be done. {mark}\n</summary>"
_NEVER = 20  # steps after which a history should have been summarised


@dataclass
class State:
    """What happened in a scene so far: `refused` is the hash of a prompt that stays too long, however often it comes."""

    calls: int = 0
    done: set[str] = field(default_factory=set)
    after: int = 0
    refused: int = 0

    def first(self, what: str) -> bool:
        """Whether this happens for the first time."""
        new = what not in self.done
        self.done.add(what)
        return new


@dataclass(frozen=True)
class Scripted:
    """A call of a marked conversation.

    Attributes:
        program: that makes it.
        prompt: as it came.
        state: of the scene.
        harness, scene: names.
        step: replies so far in this conversation.
    """

    program: Program
    prompt: Prompt
    state: State
    harness: str
    scene: str
    step: int

    def run(self, *commands: str, text: str = "Next step.", thought: str = "", odd: bool = False) -> Say:
        """Runs commands in the program's shell tool."""
        return Say(written(text, [(self.program.shell, {"command": c}) for c in commands], thought, odd), "main")

    def use(self, tool: Tool, **values: str) -> Say:
        """Calls another tool."""
        return Say(written("Next step.", [(tool, values)]), "main")

    def finish(self, text: str = "All steps are done.", thought: str = "") -> Say:
        """Ends the work."""
        if self.program.finish:
            return self.run(self.program.finish, text=text, thought=thought)
        return Say(written(text, (), thought), "main")

    def steps(self, text: str = "Next step.", thought: str = "", ending: str = "All steps are done.") -> Say:
        """The steps that most scenes are made of."""
        if self.step < len(_STEPS):
            return self.run(_STEPS[self.step], text=text, thought=thought)
        return self.finish(ending, thought)


class ConformanceModel:
    """Plays all scenes of all programs."""

    def __init__(self, programs: dict[str, Program]) -> None:
        self._programs = programs
        self._states: dict[tuple[str, str], State] = {}

    def say(self, prompt: Prompt) -> Say:
        """See `Model.say`."""
        turns = prompt.turns
        marked = [(at, m) for at, turn in enumerate(turns) if turn.role == "user" and (m := _last_mark(turn.text))]
        if not marked:
            return Say("A short answer.", "aux")
        at, found = marked[-1]
        program, key = self._programs[found["harness"]], (found["harness"], found["scene"])
        state = self._states.setdefault(key, State())
        if asks_summary(program, turns):
            state.first("summary")
            return Say(_SUMMARY.format(mark=mark("main", *key)), "aux")
        if program.shell.name not in prompt.tools:
            return Say("A short answer.", "aux")
        step = sum(turn.role == "assistant" for turn in turns[at:])
        if found["kind"] == "sub":
            return subagent(program, step)
        state.calls += 1
        return SCRIPTS[found["scene"]](Scripted(program, prompt, state, *key, step))


def asks_summary(program: Program, turns: list[Turn]) -> bool:
    """Whether a call asks for a summary of its conversation."""
    if not program.summary:
        return False
    said = [turns[0].text] if turns[0].role == "system" else []
    said += [turn.text for turn in turns[-1:] if turn.role == "user"]
    return any(re.search(program.summary, text) for text in said)


def written(text: str, calls: Any, thought: str = "", odd: bool = False) -> str:
    """A reply as the model writes it: `calls` are (tool, values) pairs; `odd` arguments are JSON in strange spacing."""
    separators = _ODD if odd else (", ", ": ")
    parts = [
        f'<tool_call>\n{{"name": "{tool.name}", "arguments": '
        f"{json.dumps(tool.filled(**values), ensure_ascii=False, separators=separators)}}}\n</tool_call>"
        for tool, values in calls
    ]
    head = f"<think>\n{thought}\n</think>\n\n" if thought else ""
    return head + "\n".join([*([text] if text else []), *parts])


def subagent(program: Program, step: int) -> Say:
    """A subagent's conversation."""
    calls = [(program.shell, {"command": "echo sub > sub.txt"})] if step == 0 else []
    return Say(written("Working." if calls else "The report: sub.txt is written.", calls), "sub")


def _plain(call: Scripted) -> Say:
    return call.steps()


def _streaming(call: Scripted) -> Say:
    say = call.steps(text=TEXT, ending=_LONG)
    return Say(say.text, say.note, token_delay_s=0.001)


def _tools(call: Scripted) -> Say:
    if call.step == 0:
        return call.run(f"cat > odd.txt <<'END'\n{TEXT}\nEND", odd=True)
    if call.step == 1 and call.program.write:
        return call.use(call.program.write, path="file.txt", text=f"{TEXT}\n")
    if call.step == 1:
        return call.run("cp odd.txt file.txt", odd=True)
    return call.finish()


def _parallel(call: Scripted) -> Say:
    return call.run("echo a > a.txt", "echo b > b.txt", text="Two at once.") if call.step == 0 else call.finish()


def _thinking(call: Scripted) -> Say:
    return call.steps(thought=f"I am at step {call.step}. {TEXT}\n\nSo be it.")


def _malformed(call: Scripted) -> Say:
    if call.state.first("malformed"):
        broken = f'{{"name": "{call.program.shell.name}", "arguments": {{"command": "echo one, "x'
        return Say(f"Next step.\n<tool_call>\n{broken}\n</tool_call>", "main")
    return _by_state(call)


def _empty(call: Scripted) -> Say:
    return Say("", "main") if call.state.first("empty") else _by_state(call)


def _by_state(call: Scripted) -> Say:
    """The usual steps for conversations whose turns cannot be counted: some programs drop or rewrite one."""
    call.state.after += 1
    if call.state.after <= len(_STEPS):
        return call.run(_STEPS[call.state.after - 1])
    return call.finish()


def _retry(call: Scripted) -> Say:
    if call.state.calls <= 2:
        return Say(note="main", status=(429, 500)[call.state.calls - 1])
    return call.steps()


def _disconnect(call: Scripted) -> Say:
    say = call.steps(text=TEXT)
    return Say(say.text, say.note, drop_after=6) if call.state.first("drop") else say


def _overflow(call: Scripted) -> Say:
    seen = hash(tuple(call.prompt.turns))
    if (call.step == 1 and call.state.first("overflow")) or seen == call.state.refused:
        call.state.refused = seen
        return Say(note="main", status=400)
    if "overflow" in call.state.done:  # what it makes of its history is its own affair
        call.state.after += 1
        return call.run(_STEPS[1]) if call.state.after == 1 else call.finish()
    return call.steps()


def _subagent(call: Scripted) -> Say:
    tool = call.program.subagent
    assert tool is not None, "the scene is left out for programs without subagents"
    if call.step == 0:
        return call.use(tool, prompt=f"Write sub.txt, then report. {mark('sub', call.harness, call.scene)}")
    found = re.search(call.program.agent, call.prompt.turns[-1].text)
    if call.step == 1 and call.program.wait and found:
        return call.use(call.program.wait, agent=found[0])
    return call.finish()


def _compaction(call: Scripted) -> Say:
    if "summary" in call.state.done:
        call.state.after += 1
        return call.run("echo after > after.txt") if call.state.after == 1 else call.finish()
    return call.run(_MUCH) if call.state.calls <= _NEVER else call.finish("There was no compaction.")


def _image(call: Scripted) -> Say:
    tool = call.program.image
    assert tool is not None, "the scene is left out for programs that show no pictures"
    if call.step == 0:
        return call.use(tool, path="picture.png")
    return call.run("echo seen > seen.txt") if call.step == 1 else call.finish()


def _last_mark(text: str) -> re.Match[str] | None:
    found = list(_MARK.finditer(text))
    return found[-1] if found else None


SCRIPTS = {
    "plain": _plain, "streaming": _streaming, "tools": _tools, "parallel": _parallel, "thinking": _thinking,
    "malformed": _malformed, "empty": _empty, "retry": _retry, "disconnect": _disconnect, "overflow": _overflow,
    "subagent": _subagent, "compaction": _compaction, "image": _image,
}  # fmt: skip
