"""The model of the conformance suite: it knows from the prompt which scene it is in and how far, and says what comes next."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from tests.conformance.programs import Program, Tool
from tests.conformance.scenes import TEXT, mark
from tests.engine.real_prompt import Prompt, Say, Turn

Uses = Sequence[tuple[Tool, dict[str, str]]]
"""Tools and what to put into their arguments."""

_MARK = re.compile(r"\[\[(?P<kind>main|sub):(?P<harness>[a-z0-9-]+):(?P<scene>[a-z]+)\]\]")
_ODD = (" , ", " :  ")  # separators of JSON that nobody writes
_LONG = " ".join(f"Sentence {n} of a long answer, with {TEXT}" for n in range(12))
_WORDY = " ".join(f"Sentence {n} says of this step what there is to say: it went as it should." for n in range(26))
_STEPS = ("echo one > one.txt", "cat one.txt > two.txt")
_MUCH = "seq {lines} | sed 's/.*/{step}.&: the configuration of the orchestrator says where its sandboxes are/'"
_VERDICT = json.dumps({"reasoning": "It was done.", "verdict": True, "failure_reason": ""})
_SUMMARY = "<summary>\nNumbers were printed; the rest is still to be done. {mark}\n</summary>"
_FULL = 12  # steps after which the engine refuses a prompt
_NEVER = 40  # steps after which a history should have been summarised


@dataclass
class State:
    """What happened in a scene so far.

    Attributes:
        calls: of the main conversation that came.
        said: of them, those that got a whole reply.
        done: what was to happen once.
        after: replies after that.
        refused: hash of a prompt that stays too long, however often it comes.
    """

    calls: int = 0
    said: int = 0
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
        values = [{"command": command, "quoted": quote(command)} for command in commands]
        return self._say(text, [(self.program.shell, v) for v in values], thought, odd)

    def several(self, *commands: str) -> Say:
        """Runs commands in one reply."""
        tool = self.program.several or self.program.shell
        return self._say("Several at once.", [(tool, {"command": command}) for command in commands])

    def use(self, tool: Tool, **values: str) -> Say:
        """Calls another tool."""
        return self._say("Next step.", [(tool, values)])

    def finish(self, text: str = "All steps are done.", thought: str = "") -> Say:
        """Ends the work."""
        if self.program.finish:
            return self.run(self.program.finish, text=text, thought=thought)
        return self._say(text, [(self.program.done, {"text": text})] if self.program.done else [], thought)

    def _say(self, text: str, calls: Uses, thought: str = "", odd: bool = False) -> Say:
        worded = in_answer if self.program.done else written
        return Say(worded(text, calls, thought, odd), "main")

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
        marked = _marks(turns, "user") or _marks(turns, "assistant")  # a summary may stand in either
        if not marked:
            summary = any(asks_summary(program, turns) for program in self._programs.values())
            return Say("A short answer.", "summary" if summary else "aux")
        at, found = marked[-1]
        program, key = self._programs[found["harness"]], (found["harness"], found["scene"])
        state = self._states.setdefault(key, State())
        if program.judge and re.search(program.judge, turns[0].text):
            return Say(_VERDICT, "judge")
        if asks_summary(program, turns):
            state.first("summary")
            return Say(_SUMMARY.format(mark=mark("main", *key)), "summary")
        if not program.done and program.shell.name not in prompt.tools:
            return Say("A short answer.", "aux")
        step = state.said if program.rewrites else sum(turn.role == "assistant" for turn in turns[at:])
        if found["kind"] == "sub":
            return subagent(program, step)
        state.calls += 1
        say = SCRIPTS[found["scene"]](Scripted(program, prompt, state, *key, step))
        state.said += say.status == 200 and say.drop_after is None
        return say


def asks_summary(program: Program, turns: list[Turn]) -> bool:
    """Whether a call asks for a summary of its conversation."""
    if not program.summary:
        return False
    said = [turns[0].text] if turns[0].role == "system" else []
    said += [turn.text for turn in turns[-1:] if turn.role == "user"]
    return any(re.search(program.summary, text) for text in said)


def in_answer(text: str, calls: Uses, thought: str = "", odd: bool = False) -> str:
    """A reply of a model whose actions stand in its answer, as JSON."""
    head = {"thinking": "", "evaluation_previous_goal": "", "memory": "", "next_goal": text}
    actions = [{tool.name: tool.filled(**values)} for tool, values in calls]
    answer = json.dumps(head | {"action": actions}, ensure_ascii=False, separators=_ODD if odd else (", ", ": "))
    return (f"<think>\n{thought}\n</think>\n\n" if thought else "") + answer


def written(text: str, calls: Uses, thought: str = "", odd: bool = False) -> str:
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
    if step == 0:
        return Say(written("Working.", [(program.shell, {"command": "echo sub > sub.txt"})]), "sub")
    report = "The report: sub.txt is written."
    return Say(written(report, [(program.report, {"text": report})] if program.report else []), "sub")


def _plain(call: Scripted) -> Say:
    return call.steps()


def _streaming(call: Scripted) -> Say:
    say = call.steps(text=TEXT, ending=_LONG)
    return Say(say.text, say.note, token_delay_s=0.001)


def _tools(call: Scripted) -> Say:
    if call.step == 0:
        return call.run(f"printf '%s\\n' '{TEXT}' > odd.txt", odd=True)
    if call.step == 1 and call.program.write:
        return call.use(call.program.write, path="file.txt", text=f"{TEXT}\n")
    if call.step == 1:
        return call.run("cp odd.txt file.txt", odd=True)
    return call.finish()


def _parallel(call: Scripted) -> Say:
    return call.several("echo a > a.txt", "echo b > b.txt") if call.step == 0 else call.finish()


def _thinking(call: Scripted) -> Say:
    return call.steps(thought=f"I am at step {call.step}. {TEXT}\n\nSo be it.")


def _malformed(call: Scripted) -> Say:
    if call.state.first("malformed"):
        broken = f'{{"name": "{call.program.shell.name}", "arguments": {{"command": "echo one, "x'
        return Say(f"<tool_call>\n{broken}\n</tool_call>", "main")
    return _by_state(call)


def _empty(call: Scripted) -> Say:
    if call.state.first("empty"):
        return Say("", "main")
    return _by_state(call)


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
    if call.state.first("drop"):
        say = call.steps(text=TEXT)
        return Say(say.text, say.note, drop_after=6)
    return _by_state(call)


def _overflow(call: Scripted) -> Say:
    seen = hash(tuple(call.prompt.turns))
    full = call.step == _FULL or "summary" in call.state.done  # a program may summarise before it is told to
    if (full and call.state.first("overflow")) or seen == call.state.refused:
        call.state.refused = seen
        return Say(note="main", status=400)
    if "overflow" in call.state.done:  # what it makes of its history is its own affair
        call.state.after += 1
        return call.run(_STEPS[1]) if call.state.after == 1 else call.finish()
    if call.step == 0:
        return call.run(_STEPS[0])
    return call.run(_MUCH.format(step=call.step, lines=120))  # so that there is something to summarise


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
    if call.state.calls > _NEVER:
        return call.finish("There was no compaction.")
    if call.program.rewrites:  # what it keeps, and summarises, is what the model says of its steps
        return call.run(f"echo {call.step}", text=f"{_WORDY} {mark('main', call.harness, call.scene)}")
    return call.run(_MUCH.format(step=call.step, lines=400))


def _image(call: Scripted) -> Say:
    tool = call.program.image
    if tool and call.step == 0:
        return call.use(tool, path="picture.png")
    return call.run("echo seen > seen.txt") if call.step == (1 if tool else 0) else call.finish()


def _marks(turns: list[Turn], role: str) -> list[tuple[int, re.Match[str]]]:
    """(index of the turn, mark), in order."""
    return [(at, found) for at, turn in enumerate(turns) if turn.role == role for found in _MARK.finditer(turn.text)]


SCRIPTS = {
    "plain": _plain, "streaming": _streaming, "tools": _tools, "parallel": _parallel, "thinking": _thinking,
    "malformed": _malformed, "empty": _empty, "retry": _retry, "disconnect": _disconnect, "overflow": _overflow,
    "subagent": _subagent, "compaction": _compaction, "image": _image,
}  # fmt: skip
