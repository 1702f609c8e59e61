"""What pods are called and labelled: functions of run and session, and nothing else. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

PREFIX = "openforge-"
DOMAIN = "openforge.dev/"
SESSION = DOMAIN + "session"
RUN = DOMAIN + "run"
IMAGE = DOMAIN + "image"
NETWORK = DOMAIN + "network"
GROUP = DOMAIN + "group"

NAME_CHARS = 63
LABEL_CHARS = 63
_NAME = re.compile(r"openforge-[a-z0-9]([-a-z0-9]*[a-z0-9])?\.[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def pod_name(run: str, session: str) -> str:
    """The name of a session's pod: another one for every session of every run, and legal whatever they are called."""
    name = f"{PREFIX}{run}.{session}"
    if len(name) <= NAME_CHARS and _NAME.fullmatch(name):
        return name
    return _cut(re.sub(r"[^a-z0-9]+", "-", name.lower()), name, NAME_CHARS)


def label_value(text: str) -> str:
    """The text as the value of a label: itself where that is legal, else what is legal of it and a hash."""
    if len(text) <= LABEL_CHARS and _LABEL.fullmatch(text):
        return text
    return _cut(re.sub(r"[^A-Za-z0-9]+", "-", text), text, LABEL_CHARS)


def labels_of(labels: Mapping[str, str], session: str) -> dict[str, str]:
    """The labels of a session's pod."""
    return {SESSION: label_value(session)} | {DOMAIN + key: label_value(value) for key, value in labels.items()}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _cut(legal: str, text: str, limit: int) -> str:
    end = f"-x{_hash(text)}"
    return f"{legal[: limit - len(end)].strip('-') or 'x'}{end}"
