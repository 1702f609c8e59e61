"""Pages name only what there is: settings, files, links; and every page is in the navigation."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import msgspec
import pytest

from shared.config.base import Section
from shared.config.model import Config
from shared.config.resolve import resolve
from shared.events import MESSAGES, tag_of
from tests.unit.docs.pages import DOCS, REPO, blocks, inline, pages, prose

SUFFIXES = (
    "py",
    "md",
    "toml",
    "json",
    "jsonl",
    "log",
    "sh",
    "yaml",
    "conf",
    "nk",
    "password",
    "gz",
    "png",
    "sock",
    "pem",
    "key",
    "lock",
)


def names_of_settings(section: type[Section] = Config, prefix: str = "") -> set[str]:
    names = set()
    for field in msgspec.structs.fields(section):
        names.add(name := prefix + field.name)
        if isinstance(field.type, type) and issubclass(field.type, Section):
            names |= names_of_settings(field.type, name + ".")
    return names


SETTINGS = names_of_settings()
OTHERS = {tag_of(kind) for kind in MESSAGES} | {"metrics.extra"}
"""Dotted names that are no settings, though they begin like one: messages, a field of ATIF."""


def looks_like_a_setting(code: str) -> bool:
    if not re.fullmatch(r"[a-z]+(\.[a-z0-9_]+)+", code) or code.rpartition(".")[2] in SUFFIXES:
        return False
    return code.partition(".")[0] in Config.__struct_fields__ and code not in OTHERS


@pytest.mark.parametrize("page", pages())
def test_settings_that_are_named_exist(page: str) -> None:
    named = [code.partition(" = ")[0].partition("=")[0] for code in inline(pages()[page])]
    assert [name for name in named if looks_like_a_setting(name) and name not in SETTINGS] == []


@pytest.mark.parametrize("page", sorted({b.page for b in blocks() if b.language == "toml"}))
def test_configuration_in_blocks_is_taken(page: str) -> None:
    for block in blocks():
        if block.page == page and block.language == "toml":
            tree: dict[str, Any] = tomllib.loads(block.text)
            if set(tree) <= set(Config.__struct_fields__):
                sets = [f"{name}={value}" for name, value in flat(tree)]
                resolve(None, sets, env={})


def flat(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    found = []
    for key, value in tree.items():
        if isinstance(value, dict):
            found += flat(value, f"{prefix}{key}.")
        else:
            found.append((prefix + key, value if isinstance(value, str) else msgspec.json.encode(value).decode()))
    return found


@pytest.mark.parametrize("page", pages())
def test_files_that_are_named_exist(page: str) -> None:
    places = re.compile(r"(tests/[a-z0-9_]+/|(services|shared|scripts|examples|k8s|docker|docs|requirements)/)[\w./-]+")
    named = [code for code in inline(pages()[page]) if places.fullmatch(code)]
    named += re.findall(r"\bdocs/[\w-]+\.md", pages()[page])
    assert [name for name in named if not (REPO / name).exists()] == []


@pytest.mark.parametrize("page", pages())
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(pages()[page])):
        if not link.startswith(("http://", "https://")):
            name, _, anchor = link.partition("#")
            assert not name or (DOCS / name).is_file(), link
            assert not anchor or anchor in anchors(name or page), f"{link}: no such heading"


def anchors(page: str) -> set[str]:
    """Of the headings of a page, as Python-Markdown makes them."""
    titles = re.findall(r"^#+ (.*)$", prose(pages()[page]), re.M)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def test_links_of_the_readme_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (REPO / "README.md").read_text(encoding="utf-8"))
    assert [link for link in links if not link.startswith("http") and not (REPO / link).exists()] == []


def test_pages_that_the_code_names_exist() -> None:
    places = ("services", "shared", "scripts", "k8s", "docker", "examples")
    files = [
        file for place in places for file in (REPO / place).rglob("*") if file.suffix in (".py", ".sh", ".yaml", ".md", ".toml")
    ]
    found = {page for file in files for page in re.findall(r"docs/[a-z-]+\.md", file.read_text(encoding="utf-8"))}
    assert found
    assert [page for page in sorted(found) if not (REPO / page).is_file()] == []


def test_every_page_is_in_the_navigation_once() -> None:
    text = (REPO / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"[\w-]+\.md$", text, re.M)
    assert sorted(named) == sorted(pages())


def test_pictures_are_there_and_are_shown() -> None:
    shown = {name for text in pages().values() for name in re.findall(r"pictures/[\w-]+\.svg", text)}
    assert shown == {f"pictures/{file.name}" for file in (DOCS / "pictures").iterdir()}


def test_errors_that_are_explained_are_those_that_are_raised() -> None:
    """What the tables of docs/troubleshooting.md quote stands so in the code; `…` there is what an error fills in."""
    files = [*REPO.glob("services/**/*.py"), *REPO.glob("shared/**/*.py"), *REPO.glob("scripts/*.sh")]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    code = re.sub(r'"\s*\\?\n\s*f?"', "", code)
    quoted = [cell for cell in re.findall(r"^\| ([^|]*) \|", pages()["troubleshooting.md"], re.M) if " " in cell]
    texts = [
        text for cell in quoted for text in re.findall(r"`([^`]*)`", cell) if " " in text and not text.startswith("openforge ")
    ]
    assert len(texts) > 20
    assert [part for text in texts for part in text.split("…") if part.strip("() ;.?") and part not in code] == []
