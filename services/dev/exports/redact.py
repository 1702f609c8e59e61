"""Replaces what should not leave the house: strings that look like secrets, and paths of homes and temporary folders. Pure.

It is a filter on text: it finds what looks like a secret, not every secret. Token ids spell out the text that they stand
for, so that a redacted export has none.
"""

from __future__ import annotations

import re
from typing import Any

SECRET, HOME, TEMPORARY = "[SECRET]", "[HOME]", "[TMP]"

_KEYS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----"
    r"|\b(?:sk|pk|rk|xai|hf|gsk|glpat|npm|pypi|dckr_pat|tok)[-_][A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, Hugging Face, ...
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"  # a JSON web token
)
_NAMED = re.compile(
    r"(?i)\b([a-z0-9_]*(?:api[_-]?key|secret|token|passw(?:or)?d)[a-z0-9_]*\\?[\"']?\s*[=:]\s*\\?[\"']?)([A-Za-z0-9_./+=-]{12,})"
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9_./+=-]{12,}")
_PATHS = (
    (re.compile(r"(?:/home/|/Users/)[\w.@+-]+|/root(?![\w-])"), HOME),
    (re.compile(r"/(?:var/)?tmp/[\w.@+-]+"), TEMPORARY),
)


def redact(text: str) -> str:
    """The text with placeholders.

    >>> redact("export API_KEY=abcdefghijklmnop; cat /home/ann/x /tmp/of-1/work/y")
    'export API_KEY=[SECRET]; cat [HOME]/x [TMP]/work/y'
    """
    text = _KEYS.sub(SECRET, text)
    text = _NAMED.sub(rf"\1{SECRET}", text)
    text = _BEARER.sub(rf"\1{SECRET}", text)
    for pattern, placeholder in _PATHS:
        text = pattern.sub(placeholder, text)
    return text


def redact_json(value: Any) -> Any:
    """A JSON value with every text in it redacted, names of fields apart."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redact_json(v) for v in value]
    if isinstance(value, dict):
        return {name: redact_json(v) for name, v in value.items()}
    return value
