"""What the services of a run say of themselves, for whoever asks how it does."""

from __future__ import annotations

import logging

import msgspec

from shared.store.connect import Client, Keys, store_errors
from shared.watch.word import Word

log = logging.getLogger(__name__)

KEPT_S = 3600
"""Words of a run that nobody says anything in any more go after so long."""
_words = msgspec.json.Decoder(Word)


class Words:
    """The words of one run. Every method raises `StoreUnavailable` when the store does not answer in time."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._redis, self._key = client, Keys(run_id)("words")

    async def say(self, word: Word) -> None:
        """In the place of what this process said before."""
        with store_errors("keep a service's word"):
            await self._redis.hset(self._key, word.id, msgspec.json.encode(word))
            await self._redis.expire(self._key, KEPT_S)

    async def leave(self, word_id: str) -> None:
        """The process ends in order."""
        with store_errors("forget a service's word"):
            await self._redis.hdel(self._key, word_id)

    async def all(self) -> list[Word]:
        """The last words of all processes; also of those that were killed."""
        with store_errors("read what services say"):
            said = await self._redis.hvals(self._key)
        return [word for body in said if (word := _read(body)) is not None]


def _read(body: bytes | str) -> Word | None:
    """None where another version of us put it differently."""
    try:
        return _words.decode(body)
    except msgspec.DecodeError as e:
        log.warning("what a service says of itself cannot be read: %s", e)
        return None


async def answers(client: Client) -> None:
    """Returns if the store answers. Raises StoreUnavailable."""
    with store_errors("answer"):
        await client.ping()
