"""What task.toml files may say in other words, the older ones above all. Pure."""

from __future__ import annotations

import copy
import re
from typing import Any

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMG])B?\s*", re.IGNORECASE)
_MIB = {"K": 1 / 1024, "M": 1, "G": 1024}


def renew(raw: dict[str, Any]) -> dict[str, Any]:
    """The content of a task.toml in the words of the current schema.

    `version` is `schema_version`; `memory` and `storage` (`"2G"`) are `memory_mb` and `storage_mb`; `allow_internet = false` is
    `network_mode = "no-network"`. `allow_internet = true` was in every template, so it says nothing: see `Task.network`.
    An artifact that is a text is a source.

    Raises:
        ValueError: a size that is none, or contradicts the new name's.
    """
    new = copy.deepcopy(raw)
    if "version" in new:
        new.setdefault("schema_version", str(new["version"]))
        del new["version"]
    if isinstance(new.get("environment"), dict):
        new["environment"] = _environment(new["environment"])
    verifier = new.get("verifier")
    if isinstance(verifier, dict) and isinstance(verifier.get("environment"), dict):
        new["verifier"] = {**verifier, "environment": _environment(verifier["environment"])}
    for part in (new, *(step for step in _list(new, "steps") if isinstance(step, dict))):
        if "artifacts" in part:
            part["artifacts"] = [{"source": a} if isinstance(a, str) else a for a in _list(part, "artifacts")]
    return new


def _list(table: dict[str, Any], key: str) -> list[Any]:
    found = table.get(key, [])
    if not isinstance(found, list):
        raise ValueError(f"{key}: expected a list")
    return found


def _environment(raw: dict[str, Any]) -> dict[str, Any]:
    new = dict(raw)
    for old in ("memory", "storage"):
        if isinstance(size := new.pop(old, None), str) and new.setdefault(f"{old}_mb", mib(size)) != mib(size):
            raise ValueError(f"environment.{old} {size!r} and environment.{old}_mb {new[f'{old}_mb']} are not the same")
    if new.pop("allow_internet", None) is False and "allowed_hosts" not in new:
        new.setdefault("network_mode", "no-network")
    if isinstance(new.get("os"), str):
        new["os"] = new["os"].lower()
    return new


def mib(size: str) -> int:
    """A size such as `512M` or `1.5G` in MiB.

    Raises:
        ValueError: it is none.
    """
    if not (match := _SIZE.fullmatch(size)):
        raise ValueError(f"{size!r} is not a size such as 512M or 2G")
    return max(1, int(float(match[1]) * _MIB[match[2].upper()]))
