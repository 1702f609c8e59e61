"""Merges calls into rows: one row per root-to-leaf path, every trained completion in exactly one of them.

Which calls grew from which is found anew over the token ids of all calls; what the proxy noted about it only served to
keep the records small.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import takewhile

from services.collector.calls import ID_BYTES, Call
from shared.events import Media, Row, Span
from shared.lineage import Lineage

Parents = Mapping[int, int | None]
"""The parent's number for each call's number, None for a root."""


def link(calls: Sequence[Call], cut: Collection[int]) -> Parents:
    """Finds the parent of each call among the calls before it.

    Of calls with equal ids the later one is the parent, unless an earlier one is better fit to be trained.

    Args:
        calls: in the order of their numbers.
        cut: numbers of calls whose reply did not reach the client whole.
    """
    lineage = Lineage()
    parents: dict[int, int | None] = {}
    best: dict[tuple[str, bytes], tuple[bool, bool]] = {}
    for call in calls:
        prompt = memoryview(call.full)[: call.record.prompt_len * ID_BYTES]  # a copy of each would cost more than all else
        found = lineage.parent(prompt, call.record.parent_seq)
        parents[call.seq] = found.seq if found else None
        ids, fitness = (call.record.prompt_digest, call.record.completion), _fitness(call, cut)
        if fitness >= best.get(ids, fitness):
            best[ids] = fitness
            lineage.add(call.seq, call.full, parents[call.seq])
    return parents


def reasons(calls: Sequence[Call], parents: Parents, cut: Collection[int], max_tokens: int) -> dict[int, str]:
    """Why a call is not trained, by its number; calls that are trained are absent.

    Args:
        calls: in the order of their numbers.
        parents: as found by `link`.
        cut: numbers of calls whose reply did not reach the client whole.
        max_tokens: longest prompt and completion together.
    """
    extended = {p for p in parents.values() if p is not None}
    passed_over = _passed_over(calls, extended, cut)
    found = {}
    for call in calls:
        if call.record.role in ("aux", "judge"):
            found[call.seq] = "aux"
        elif not call.free:
            found[call.seq] = "constrained"
        elif call.stray:
            found[call.seq] = "stray_media"
        elif call.seq in cut and call.seq not in extended:
            found[call.seq] = "cut"
        elif call.seq in passed_over:
            found[call.seq] = passed_over[call.seq]
        elif len(call.full) > max_tokens * ID_BYTES:
            found[call.seq] = "overlong"
    return found


def rows(calls: Sequence[Call], parents: Parents, trained: set[int]) -> list[Row]:
    """Rows in the order of their last calls. A row ends with a trained call; the first row that holds a call trains it."""
    by_seq = {c.seq: c for c in calls}
    leaves = trained - _above(trained, parents)
    after = {seq: n for n, seq in enumerate(sorted(trained, reverse=True))}
    made: list[Row] = []
    to_train = set(trained)
    for leaf in sorted(leaves):
        path = [leaf, *_ancestors(leaf, parents)]
        owned = [by_seq[seq] for seq in reversed(path) if seq in to_train]
        made.append(_row([by_seq[seq] for seq in reversed(path)], [_span(call, after[call.seq]) for call in owned], owned))
        to_train.difference_update(path)
    return made


def _fitness(call: Call, cut: Collection[int]) -> tuple[bool, bool]:
    return call.trainable, call.seq not in cut


def _passed_over(calls: Sequence[Call], extended: Collection[int], cut: Collection[int]) -> dict[int, str]:
    """Calls that were asked again with the very same prompt, and are not the ones that the harness went on from.

    Where it went on from none, the one that was delivered counts; of several that were, none is known to count.
    """
    found: dict[int, str] = {}
    for twins in _twins(calls):
        delivered = [seq for seq in twins if seq not in cut]
        kept = [seq for seq in twins if seq in extended] or (delivered if len(delivered) == 1 else [])
        found |= {seq: "superseded" if kept else "unresolved" for seq in twins if seq not in kept}
    return found


def _twins(calls: Sequence[Call]) -> Iterator[list[int]]:
    """Numbers of the calls that could be trained and have one and the same prompt."""
    by_prompt: defaultdict[str, list[int]] = defaultdict(list)
    for call in calls:
        if call.trainable:
            by_prompt[call.record.prompt_digest].append(call.seq)
    yield from by_prompt.values()


def _above(calls: Collection[int], parents: Parents) -> set[int]:
    """All ancestors of some calls."""
    above: set[int] = set()
    for seq in calls:
        above.update(takewhile(lambda ancestor: ancestor not in above, _ancestors(seq, parents)))
    return above


def _ancestors(seq: int, parents: Parents) -> Iterator[int]:
    parent = parents[seq]
    while parent is not None:
        yield parent
        parent = parents[parent]


def _span(call: Call, after: int) -> Span:
    return Span(seq=call.seq, start=call.record.prompt_len, end=len(call.full) // ID_BYTES, after=after)


def _row(path: Sequence[Call], spans: list[Span], owned: Sequence[Call]) -> Row:
    """Every call of a path, root first, is a prefix of its leaf, so that the leaf's ids are the row's."""
    leaf = path[-1]
    mask = bytearray(len(leaf.full) // ID_BYTES)
    logprobs = bytearray(len(leaf.full))
    for span, call in zip(spans, owned, strict=True):
        mask[span.start : span.end] = b"\x01" * (span.end - span.start)
        logprobs[span.start * ID_BYTES : span.end * ID_BYTES] = call.record.logprobs
    return Row(
        prompt_len=path[0].record.prompt_len, ids=leaf.full, response_mask=bytes(mask), logprobs=bytes(logprobs), spans=spans,
        media=_media(path), experts=leaf.record.experts,
    )  # fmt: skip


def _media(path: Sequence[Call]) -> list[Media]:
    """Media of a row. Each call places what is new in its prompt; the trainer misses those without a place."""
    placed = [medium for call in path for medium in call.record.media if medium.start >= 0]
    return sorted(placed, key=lambda medium: medium.start)
