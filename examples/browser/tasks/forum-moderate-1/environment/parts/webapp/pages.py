"""HTML of the pages. What is put in is escaped, but where a name says that it is HTML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from urllib.parse import urlencode

from ..kept import Row

ICON = '<link rel="icon" href="data:,">'
STYLE = (
    "body{font-family:sans-serif;max-width:60em;margin:1em auto;padding:0 1em;line-height:1.4}"
    "nav a{margin-right:1em}table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.25em .6em;text-align:left}"
    ".error{color:#a00;font-weight:bold}.note{color:#060}label{display:block;margin:.5em 0}"
    "form.inline,form.inline label{display:inline}.post{border:1px solid #bbb;padding:.5em;margin:.5em 0}"
)


def page(title: str, body_html: str, links: Mapping[str, str], site: str) -> str:
    """A whole page; `links` are the addresses of its navigation by their text."""
    nav = "".join(link(to, text) for text, to in links.items())
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)} - {escape(site)}</title>{ICON}'
        f"<style>{STYLE}</style></head>\n<body>\n<nav>{nav}</nav>\n<h1>{escape(title)}</h1>\n{body_html}\n</body>\n</html>\n"
    )


def link(to: str, text: str) -> str:
    """A link."""
    return f'<a href="{escape(to)}">{escape(text)}</a>'


def money(cents: int) -> str:
    """An amount."""
    return f"{cents // 100}.{cents % 100:02}"


def heading(text: str) -> str:
    """A heading within a page."""
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def bullets(items_html: Iterable[str], kind: str = "ul") -> str:
    """A list; its items are HTML."""
    return f"<{kind}>{''.join(f'<li>{item}</li>' for item in items_html)}</{kind}>"


def table(heads: Sequence[str], rows_html: Iterable[Sequence[str]]) -> str:
    """A table; its cells are HTML."""
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows_html)
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
    rows = "\n".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in pairs)
    return f"<table>\n{rows}\n</table>"


def form(to: str, inner_html: str, button: str, kind: str = "", method: str = "post") -> str:
    """A form with one button."""
    shape = f' class="{kind}"' if kind else ""
    return f'<form method="{method}" action="{escape(to)}"{shape}>\n{inner_html}\n<button>{escape(button)}</button>\n</form>'


def entry(name: str, label: str, value: str = "", hint: str = "", kind: str = "text") -> str:
    """A field to write into."""
    more = f" <small>{escape(hint)}</small>" if hint else ""
    box = f'<input name="{name}" type="{kind}" value="{escape(value)}" autocomplete="off">'
    return f"<label>{escape(label)}: {box}{more}</label>"


def hidden(name: str, value: str) -> str:
    """A field that is not seen."""
    return f'<input type="hidden" name="{name}" value="{escape(value)}">'


def choice(name: str, label: str, options: Sequence[str], value: str = "", empty: str = "") -> str:
    """A list to choose from; with `empty` its first line has that text and no value."""
    lines = [f'<option value="">{escape(empty)}</option>'] if empty else []
    lines += [f"<option{' selected' if option == value else ''}>{escape(option)}</option>" for option in options]
    return f'<label>{escape(label)}: <select name="{name}">{"".join(lines)}</select></label>'


def pager(path: str, query: Mapping[str, str], number: int, pages: int) -> str:
    """Links to the pages before and after; `query` is kept."""

    def to(other: int) -> str:
        return f"{path}?{urlencode({**query, 'page': str(other)})}"

    before = link(to(number - 1), "Previous page") if number > 1 else ""
    after = link(to(number + 1), "Next page") if number < pages else ""
    return f"<p>Page {number} of {pages} {before} {after}</p>"


def cut(rows: Sequence[Row], page_text: str, size: int) -> tuple[Sequence[Row], int, int]:
    """The rows of a page, its number, and how many pages there are; a number that is none is taken for the nearest."""
    pages = max(1, -(-len(rows) // size))
    number = min(max(1, int(page_text) if page_text.isdecimal() else 1), pages)
    return rows[(number - 1) * size : number * size], number, pages
