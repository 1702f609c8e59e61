#!/usr/bin/env python3
"""The office at the command line: mail, calendar, chat, contacts and files."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

URL = os.environ.get("SERVICE_URL", "http://127.0.0.1:8000")
EXAMPLES = """examples:
  office mail search invoice          office mail read m4
  office mail reply m4 It is 42.      office mail send --to a@b.test --subject Hello --text "Good day"
  office mail forward m4 --to a@b.test            office mail move m4 archive
  office events list --day 2026-03-02 --attendee a@b.test
  office events create --title Review --start 2026-03-02T09:00 --end 2026-03-02T10:00 --attendees a@b.test,c@d.test
  office events update e3 --start 2026-03-02T11:00 --end 2026-03-02T12:00
  office chat list                    office chat read general
  office chat post general The build is green.
  office contacts search Anna         office contacts update c3 --phone 555-0199
  office files list                   office files read notes/plan.txt
  office files write notes/new.txt First line"""
OPTIONS = (
    "to",
    "cc",
    "subject",
    "text",
    "folder",
    "title",
    "start",
    "end",
    "attendees",
    "place",
    "name",
    "email",
    "phone",
    "company",
)
LISTS = ("to", "cc", "attendees")
KINDS = {
    "mail": "list search read send reply forward move delete",
    "events": "list search read create update delete",
    "chat": "list read search post",
    "contacts": "list search read create update delete",
    "files": "list search read write delete",
}


def parser() -> argparse.ArgumentParser:
    """What the command line may say."""
    top = argparse.ArgumentParser(
        "office", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("kind", choices=KINDS)
    top.add_argument("action", help="; ".join(f"{kind}: {actions}" for kind, actions in KINDS.items()))
    top.add_argument("words", nargs="*", help="id, words to search for, or text")
    top.add_argument("--json", action="store_true", help="print the service's answer as it is")
    for name in ("page", "day", "attendee"):
        top.add_argument(f"--{name}", help={"page": "of a list", "day": "2026-03-02", "attendee": "address"}[name])
    for name in OPTIONS:
        top.add_argument(f"--{name}", help="addresses, with commas between them" if name in LISTS else None)
    return top


def request(said: argparse.Namespace) -> tuple[str, str, dict[str, Any] | None]:
    """Method, path and body of what was said."""
    kind, action, words = said.kind, said.action, list(said.words)
    if action not in KINDS[kind].split():
        sys.exit(f"office {kind} has no {action!r}; it has: {KINDS[kind]}")
    fields = {name: value for name in OPTIONS if (value := getattr(said, name)) is not None}
    fields |= {name: fields[name].replace(",", " ").split() for name in LISTS if name in fields}
    if action in ("list", "search"):
        asked = {"query": " ".join(words)} | ({"folder": fields["folder"]} if "folder" in fields else {})
        return "GET", f"/{kind}?{urlencode(asked | _page(said))}", None
    if action in ("send", "create"):
        return "POST", f"/{kind}", fields
    if not words:
        sys.exit(f"office {kind} {action} needs an id, a channel or a path; office --help has examples")
    return _of_one(action, f"/{kind}/{quote(words[0])}", " ".join(words[1:]), fields, _page(said))


def _page(said: argparse.Namespace) -> dict[str, str]:
    return {name: value for name in ("page", "day", "attendee") if (value := getattr(said, name)) is not None}


def _of_one(
    action: str, place: str, text: str, fields: dict[str, Any], page: dict[str, str]
) -> tuple[str, str, dict[str, Any] | None]:
    """What is to be done with one item; the words after its id are a text."""
    with_text = fields | ({"text": text} if text else {})
    match action:
        case "reply" | "forward":
            return "POST", f"{place}/{action}", with_text
        case "post":
            return "POST", place, with_text
        case "write":
            return "PUT", place, with_text
        case "move":
            return "PATCH", place, {"folder": text or fields.get("folder", "")}
        case "update":
            return "PATCH", place, fields
        case "delete":
            return "DELETE", place, None
    return "GET", f"{place}?{urlencode(page)}", None


def ask(method: str, path: str, body: dict[str, Any] | None) -> Any:
    """The service's answer; ends the program with what it says if it refuses."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(URL + path, data=data, method=method)) as answer:
            return json.load(answer)
    except HTTPError as e:
        sys.exit(f"HTTP {e.code}: {json.load(e)['error']}")
    except URLError as e:
        sys.exit(f"the office at {URL} does not answer: {e.reason}")


def shown(kind: str, answer: dict[str, Any]) -> str:
    """An answer for people: a line an item of a list, all of a single one."""
    if "items" not in answer:
        body = answer.get("text", "")
        head = [f"{name}: {_plain(value)}" for name, value in answer.items() if name != "text"]
        return "\n".join(head + ([body] if body else []))
    lines = [_line(kind, item) for item in answer["items"]]
    if answer.get("pages", 1) > 1:
        lines.append(f"page {answer['page']} of {answer['pages']}; --page N shows another")
    return "\n".join(lines) or "nothing found"


def _line(kind: str, item: dict[str, Any]) -> str:
    if kind == "mail":
        return f"{item['id']} [{item['folder']}] {item['date']} {item['from']}: {item['subject']}"
    if kind == "chat" and "text" in item:
        return f"{item['date']} {item['from']}: {item['text']}"
    return " | ".join(_plain(value) for value in item.values() if value != "")


def _plain(value: Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def main() -> None:
    said = parser().parse_args()
    answer = ask(*request(said))
    print(json.dumps(answer, indent=1) if said.json else shown(said.kind, answer))  # noqa: T201 - a program for the terminal


if __name__ == "__main__":
    main()
