"""What is generated of the docs is what the code says now."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from scripts.docs import pages
from scripts.docs.commands import verbs
from scripts.docs.markdown import meanings, table
from shared.config.base import Section
from shared.config.model import Config
from shared.events import MESSAGES, tag_of


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    return pages.rendered()


@pytest.mark.parametrize("name", [*pages.WHOLE, *pages.PARTS])
def test_pages_are_what_the_code_says(name: str, rendered: dict[str, str]) -> None:
    assert (pages.DOCS / name).read_text(encoding="utf-8") == rendered[name], "run: python -m scripts.docs"


def test_every_message_setting_and_verb_has_its_place(rendered: dict[str, str]) -> None:
    assert [tag_of(kind) for kind in MESSAGES if f"### `{tag_of(kind)}`" not in rendered["events.md"]] == []
    assert [words for words, _ in verbs() if f"## `{words}`" not in rendered["cli.md"]] == []
    assert [name for name, _ in fields() if f"`{name}`" not in rendered["configuration.md"]] == []


def test_every_setting_option_and_verb_has_a_meaning() -> None:
    assert [name for name, told in fields() if not told] == []
    mute = [f"{words} {p.name}" for words, verb in verbs() for p in verb.params if p.param_type_name == "option" and not p.help]
    assert [words for words, verb in verbs() if not verb.help] + mute == []


def fields(kind: type[Section] = Config, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every setting that is no table, and what is said of it."""
    told = meanings(kind)
    for field in msgspec.structs.fields(kind):
        if isinstance(field.type, type) and issubclass(field.type, Section):
            yield from fields(field.type, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name, told.get(field.name, "")


def test_a_part_is_put_between_its_marks_and_nowhere_else() -> None:
    page = "a\n<!-- begin x -->\n\nold\n\n<!-- end x -->\nb\n"
    assert pages.filled(page, "x", "new") == "a\n<!-- begin x -->\n\nnew\n\n<!-- end x -->\nb\n"
    with pytest.raises(ValueError, match="0 parts"):
        pages.filled(page, "y", "new")


def test_bars_in_cells_do_not_end_them() -> None:
    assert table(("a",), [("int | None",)]) == "| a |\n| --- |\n| int \\| None |\n"
