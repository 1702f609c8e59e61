"""Content of chat messages as ATIF has it: texts, and images by their paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from services.collector.archive import MEDIA
from services.dev.exports import atif

ImageType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
Images = Mapping[str, ImageType]
"""Types of the images that an export has, by the sha256 of their bytes."""
_HASH = "sha256:"
_MAGIC: tuple[tuple[bytes, ImageType], ...] = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)


def content_of(content: Any, images: Images) -> atif.Content:
    """The content of an OpenAI chat message. An image that the export has becomes a path, any other medium a text. Pure."""
    if content is None or isinstance(content, str):
        return content or ""
    return [_part(p, images) for p in content]


def image_path(sha256: str, kind: ImageType) -> str:
    """Where an image lies, from the folder of the trajectory's file."""
    return f"{MEDIA}/{sha256}.{kind.removeprefix('image/')}"


def archived_images(archive: Path, hashes: Iterable[str]) -> dict[str, ImageType]:
    """The images among some media that are in an archive.

    Raises:
        OSError: one cannot be read.
    """
    kinds = {sha256: _kind(archive / MEDIA / sha256) for sha256 in hashes}
    return {sha256: kind for sha256, kind in kinds.items() if kind is not None}


def _kind(file: Path) -> ImageType | None:
    try:
        with file.open("rb") as f:
            head = f.read(4)
    except FileNotFoundError:
        return None
    return next((kind for magic, kind in _MAGIC if head.startswith(magic)), None)


def _part(part: dict[str, Any], images: Images) -> atif.TextPart | atif.ImagePart:
    kind = part.get("type")
    if kind == "text":
        return atif.TextPart(text=str(part.get("text", "")))
    holder = part.get("image_url") if kind == "image_url" else None
    url = str(holder.get("url", "")) if isinstance(holder, dict) else ""
    sha256 = url.removeprefix(_HASH)
    if sha256 in images:
        return atif.ImagePart(source=atif.ImageSource(media_type=images[sha256], path=image_path(sha256, images[sha256])))
    return atif.TextPart(text=f"[{kind} {url}]")
