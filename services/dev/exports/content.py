"""Content of chat messages as ATIF has it: texts, and images by their paths. Pure."""

from __future__ import annotations

from typing import Any

from services.dev.exports import atif

MEDIA = "media"
"""Folder of images beside an export, each named by the sha256 of its bytes."""
_HASH = "sha256:"


def content_of(content: Any) -> atif.Content:
    """The content of an OpenAI chat message. An image that was recorded becomes a path, any other medium a text."""
    if content is None or isinstance(content, str):
        return content or ""
    return [_part(p) for p in content]


def _part(part: dict[str, Any]) -> atif.TextPart | atif.ImagePart:
    kind = part.get("type")
    if kind == "text":
        return atif.TextPart(text=str(part.get("text", "")))
    holder = part.get("image_url") if kind == "image_url" else None
    url = str(holder.get("url", "")) if isinstance(holder, dict) else ""
    if url.startswith(_HASH):
        return atif.ImagePart(source=atif.ImageSource(media_type="image/png", path=f"{MEDIA}/{url.removeprefix(_HASH)}"))
    return atif.TextPart(text=f"[{kind} {url}]")
