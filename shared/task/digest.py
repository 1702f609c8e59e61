"""What a folder consists of, as a digest."""

from __future__ import annotations

import hashlib
from pathlib import Path


def folder_digest(folder: Path) -> str:
    """SHA-256 of the names and contents of all files in a folder, as hex: another one once the task of that name has become
    another."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(folder)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()
