"""``python -m scripts.docs`` writes what is generated of docs/, and says which files it changed."""

from __future__ import annotations

import sys

from scripts.docs.pages import DOCS, rendered

for name, text in rendered().items():
    page = DOCS / name
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")
        sys.stdout.write(f"docs/{name}\n")
