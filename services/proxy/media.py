"""What goes beside a record, into the store: images and other media of a request, and the experts that the engine chose."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import msgspec

from shared.errors import FidelityError
from shared.events import Media
from shared.store.blobs import Blobs

_URLS = ("image_url", "video_url", "audio_url")


async def detach(messages: Sequence[msgspec.Raw], blobs: Blobs) -> tuple[list[msgspec.Raw], list[str]]:
    """Puts what data URLs hold into the store and `sha256:<hex>` in their place.

    Returns:
        The messages, and the hashes in the order of their places.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    bare, hashes = [], []
    for raw in messages:
        message = msgspec.json.decode(raw)
        found = list(_data_urls(message))
        for holder in found:
            ref = await blobs.put(_content(holder["url"]))
            holder["url"] = f"sha256:{ref.sha256}"
            hashes.append(ref.sha256)
        bare.append(msgspec.Raw(msgspec.json.encode(message)) if found else raw)
    return bare, hashes


async def keep_experts(text: str, blobs: Blobs) -> str:
    """Puts what the engine says of its experts into the store. Returns its hash.

    Raises:
        FidelityError: it is no base64.
        StoreUnavailable: the store does not answer.
    """
    try:
        return (await blobs.put(base64.b64decode(text, validate=True))).sha256
    except binascii.Error as e:
        raise FidelityError(f"the engine's routed_experts cannot be read: {e}") from None


def hashes_of(messages: Sequence[msgspec.Raw]) -> list[str]:
    """Hashes of the media of messages, in the order of their places."""
    urls = (holder["url"] for raw in messages for holder in _data_urls(msgspec.json.decode(raw)))
    return [hashlib.sha256(_content(url)).hexdigest() for url in urls]


def place(
    hashes: Sequence[str], ids: Sequence[int], tokens: frozenset[int], offset: int, earlier: Sequence[str] = ()
) -> list[Media]:
    """Where media stand among new prompt ids: runs of placeholder tokens, in the order of the messages.

    Args:
        hashes: of the media of new messages.
        ids: that are new in the prompt.
        tokens: placeholders of the model; without them, or if the runs are not as many as the media, no place is given.
        offset: of the first id in the whole prompt.
        earlier: hashes of media of earlier messages; the last of them may stand among the new ids, too.
    """
    runs, known = list(_runs(ids, tokens)), [*earlier, *hashes]
    if not len(hashes) <= len(runs) <= len(known):
        return [Media(sha256=sha) for sha in hashes]
    new = known[len(known) - len(runs) :]
    return [Media(sha256=sha, start=offset + at, length=n) for sha, (at, n) in zip(new, runs, strict=True)]


def strays(ids: Sequence[int], sampled: Collection[int], tokens: frozenset[int], media: Sequence[Media]) -> bool:
    """Whether placeholders stand among new prompt ids or sampled ones that are no medium's.

    Args:
        ids: that are new in the prompt.
        sampled: ids of the reply.
        tokens: placeholders of the model.
        media: as `place` found them.
    """
    prompted = any(m.start < 0 for m in media) or not media
    return not tokens.isdisjoint(sampled) or (prompted and not tokens.isdisjoint(ids))


def _data_urls(message: Any) -> Iterator[dict[str, Any]]:
    """The objects of a message whose `url` is a data URL."""
    parts = message.get("content") if isinstance(message, dict) else None
    for part in parts if isinstance(parts, list) else ():
        for name in _URLS:
            holder = part.get(name) if isinstance(part, dict) else None
            if isinstance(holder, dict) and str(holder.get("url", "")).startswith("data:"):
                yield holder


def _content(url: str) -> bytes:
    """What a data URL holds; its text where that is not base64."""
    _, _, body = url.partition(",")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return body.encode()


def _runs(ids: Sequence[int], tokens: frozenset[int]) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(ids):
        end = at
        while end < len(ids) and ids[end] in tokens and ids[end] == ids[at]:
            end += 1
        if end > at:
            yield at, end - at
        at = max(end, at + 1)
