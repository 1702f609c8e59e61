"""Pictures as SVG that stands in a page by itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_ROW, _LABEL, _BAR, _NUMBER, _GAP = 22, 230, 360, 70, 6


def bars(rows: Sequence[tuple[str, float, str]], colour: str, about: str) -> str:
    """A picture of horizontal bars.

    Args:
        rows: label, length, and the text behind the bar.
        colour: of the bars.
        about: what it shows, for who cannot see it.
    """
    most = max((value for _, value, _ in rows), default=0.0) or 1.0
    height, width = _ROW * len(rows), _LABEL + _BAR + _NUMBER
    parts = [f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{escape(about)}">']
    for number, (label, value, said) in enumerate(rows):
        top, length = _ROW * number, max(0.0, value) / most * _BAR
        middle = top + _ROW / 2 + 4
        parts += [
            f'<text x="{_LABEL - _GAP}" y="{middle:g}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{_LABEL}" y="{top + 3}" width="{length:.1f}" height="{_ROW - 6}" fill="{escape(colour)}"/>',
            f'<text x="{_LABEL + length + _GAP:.1f}" y="{middle:g}">{escape(said)}</text>',
        ]
    return "\n".join([*parts, "</svg>"])
