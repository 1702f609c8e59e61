"""Which token ended a reply, if one did. The engine does not say it in every case."""

from __future__ import annotations

from collections.abc import Iterable

from services.proxy.answer import Answer


class Stops:
    """Tokens that end a turn: those of the model's own files, and those that were seen to do so.

    Attributes:
        known: their ids.
    """

    def __init__(self, known: Iterable[int] = ()) -> None:
        self.known = set(known)

    def end_of(self, answer: Answer, limit: int) -> int | None:
        """The stop token at the end of a reply; None where it was cut short, by a limit or a stop string.

        A reply that called a tool is reported as `tool_calls` even when the limit ended it: then the last token decides.

        Args:
            answer: the whole reply.
            limit: most tokens that it could have.
        """
        if not answer.completion or isinstance(answer.stop_reason, str):
            return None
        last = answer.completion[-1]
        if answer.finish_reason == "stop" or (answer.finish_reason == "tool_calls" and len(answer.completion) < limit):
            self.known.add(last)
            return last
        return last if answer.finish_reason == "tool_calls" and last in self.known else None
