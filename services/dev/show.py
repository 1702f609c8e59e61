"""`openforge show`: one rollout, call by call."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from services.collector.history import Rollout
from services.dev.archives import RunFolder, damage_lines, load_rollout, open_run
from services.dev.fates import TRAINED
from services.dev.shown import Call, Decode, Shown, ShownAttempt, shown
from shared.errors import ArchiveError
from shared.events import TokenCounts

_CHARS, _LINES = 700, 10
"""Of a message that are shown; `--json` has it whole."""


def show(root: Path, run_id: str, rollout_id: str, *, attempt: int, tokens: bool, as_json: bool) -> int:
    """Prints a rollout.

    Args:
        root: folder of the runs.
        run_id: empty takes the newest.
        rollout_id: which.
        attempt: 0 for all.
        tokens: each sampled token too.
        as_json: whole, as JSON.

    Raises:
        ForgeError: there is no such run, rollout or attempt.
    """
    run = open_run(root, run_id)
    history, rollout, damage = load_rollout(run, rollout_id)
    group, numbers = history.groups[rollout.group_id], _numbers(rollout, attempt)
    decode = decoder(run) if tokens else None
    model = shown(run.run_id, rollout, group, numbers, run.config.collector.timeout_policy, decode)
    if as_json:
        sys.stdout.write(msgspec.json.encode(model).decode() + "\n")
    else:
        render(model, Console(highlight=False))
    for line in damage_lines(damage):
        sys.stderr.write(f"the archive: {line}\n")
    return 0


def decoder(run: RunFolder) -> Decode:
    """Texts of token ids by the tokenizer of the run's model; none where the model's folder has no tokenizer.json, or
    `tokenizers` is not installed."""
    file = Path(run.config.engine.model) / "tokenizer.json"
    if not run.config.engine.model or not file.is_file():
        return lambda token: None
    try:
        from tokenizers import Tokenizer
    except ImportError:  # it comes with the trainer; ids are there without it
        return lambda token: None
    tokenizer = Tokenizer.from_file(str(file))
    return lambda token: str(tokenizer.decode([token], skip_special_tokens=False))


def _numbers(rollout: Rollout, attempt: int) -> list[int]:
    if attempt and attempt not in rollout.attempts:
        there = ", ".join(map(str, sorted(rollout.attempts)))
        raise ArchiveError(f"rollout {rollout.rollout_id} has no attempt {attempt}; there are {there}")
    return [attempt] if attempt else sorted(rollout.attempts)


def render(model: Shown, console: Console) -> None:
    """Prints it for a person."""
    console.print(Text(f"rollout {model.rollout_id}", style="bold"))
    console.print(f"run {model.run_id}, task {model.task}, harness {model.harness}, {model.purpose}", markup=False)
    console.print(f"group {model.group_id}: {model.group}", markup=False)
    for attempt in model.attempts:
        _render_attempt(attempt, console)


def _render_attempt(attempt: ShownAttempt, console: Console) -> None:
    console.print()
    console.print(Text(f"attempt {attempt.attempt}", style="bold"))
    console.print(attempt.outcome, markup=False)
    console.print(f"{attempt.settled}; {counts_line(attempt.tokens)}", markup=False)
    for name, numbers in (("ended in an error", attempt.errored), ("have no record", attempt.lost)):
        if numbers:
            console.print(f"calls {numbers} {name}", markup=False)
    console.print(_tree(attempt.calls))
    for call in attempt.calls:
        _render_turn(call, console)


def counts_line(tokens: TokenCounts) -> str:
    """Where tokens went, with the reasons."""
    why = ", ".join(f"{reason} {n}" for reason, n in tokens.reasons.items())
    parts = f"{tokens.sampled} tokens sampled: {tokens.trained} trained, {tokens.masked} masked, {tokens.dropped} dropped"
    return f"{parts} ({why})" if why else parts


def _tree(calls: list[Call]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name, right in (("call", False), ("role", False), ("prompt", True), ("sampled", True), ("v", True), ("end", False)):
        table.add_column(name, justify="right" if right else "left")
    table.add_column("", overflow="fold")
    depths = _depths(calls)
    for c in calls:
        style = "green" if c.fate == TRAINED else "yellow"
        end = f"{c.finish_reason or '-'}{' (cut)' if c.delivery == 'cut' else ''}"
        fate = c.fate + (f"; fork: {c.fork}" if c.fork else "")
        name = "  " * depths[c.seq] + f"{'└ ' if depths[c.seq] else ''}#{c.seq}"
        role = f"{c.role} {c.thread[:8]}".strip()
        numbers = (str(c.prompt_tokens), str(c.completion_tokens), str(c.weight_version))
        table.add_row(Text(name), Text(role), *numbers, end, Text(fate, style=style))
    return table


def _depths(calls: list[Call]) -> dict[int, int]:
    """How far to the right a call stands: beside the call that it goes on from, unless another did so before it."""
    depths: dict[int, int] = {}
    gone_on: set[int] = set()
    for call in calls:
        before = call.goes_on_from
        if before is None or before not in depths:
            depths[call.seq] = int(call.role != "main")
        else:
            depths[call.seq] = depths[before] + (before in gone_on)
            gone_on.add(before)
    return depths


def _render_turn(call: Call, console: Console) -> None:
    console.print()
    after = f", goes on from #{call.goes_on_from}" if call.goes_on_from else ""
    console.print(Text(f"#{call.seq} {call.role}{after}", style="bold cyan"))
    for message in (*call.messages, call.reply):
        console.print(Text.assemble((f"{message.get('role', '?')}: ", "bold"), clipped(message_text(message))))
    for token in call.tokens:
        text = "" if token.text is None else repr(token.text)
        console.print(f"{token.id:>8}  {token.mask}  {token.logprob:>10.4f}  {text}", markup=False)


def message_text(message: dict[str, Any]) -> str:
    """A chat message as text: its reasoning, its content, the tools that it calls."""
    parts = [f"<{message['reasoning']}>"] if message.get("reasoning") else []
    parts += [content_text(message.get("content"))]
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(f"{function.get('name')}({function.get('arguments')})")
    return "\n".join(p for p in parts if p)


def content_text(content: Any) -> str:
    """The text of a message's content, media in brackets."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(p.get("text", "")) if p.get("type") == "text" else f"[{_medium(p)}]" for p in content)


def _medium(part: dict[str, Any]) -> str:
    holder = part.get(str(part.get("type")))
    return f"{part.get('type')} {holder.get('url', '') if isinstance(holder, dict) else ''}".strip()[:100]


def clipped(text: str) -> str:
    """A text short enough to be read, with a note of what was left out."""
    lines = text.splitlines()
    short = "\n".join(lines[:_LINES])[:_CHARS]
    left = len(text) - len(short)
    return short if left <= 0 else f"{short} … ({left} more characters)"
