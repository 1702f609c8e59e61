# What the service is, once more: the agent could change the other one.
"""An office as data: mail, calendar, chat, contacts and files, and what may be done with them. No I/O and no clock: the same
requests on the same office give the same one, which is how a verifier knows that a state came about by requests."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

State = dict[str, Any]
Query = dict[str, str]
PAGE = 20
MINUTE = "%Y-%m-%dT%H:%M"
FIELDS: dict[str, dict[str, type]] = {
    "mail": {"to": list, "cc": list, "subject": str, "text": str, "folder": str},
    "events": {"title": str, "start": str, "end": str, "attendees": list, "place": str},
    "contacts": {"name": str, "email": str, "phone": str, "company": str},
}
"""What a request may say of an item."""
NEEDED = {"mail": ("to", "subject", "text"), "events": ("title", "start", "end"), "contacts": ("name", "email")}
CHANGED = {"mail": ("folder",), "events": tuple(FIELDS["events"]), "contacts": tuple(FIELDS["contacts"])}
PREFIX = {"mail": "m", "events": "e", "contacts": "c"}


class Refused(Exception):
    """A request cannot be done; `status` is HTTP's, the text says what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Office:
    """One office.

    Attributes:
        state: all of it, as JSON.
    """

    def __init__(self, state: State) -> None:
        self.state = copy.deepcopy(state)

    def call(self, method: str, path: str, query: Query, body: Any) -> tuple[int, Any]:
        """Carries a request out; gives status and answer. A request that is refused changes nothing."""
        parts = [part for part in path.split("/") if part]
        before = copy.deepcopy(self.state) if method != "GET" else None
        try:
            if body is not None and not isinstance(body, dict):
                raise Refused(400, "the body must be a JSON object")
            answer = self._route(method, parts, query, body or {})
        except Refused as e:
            self.state = self.state if before is None else before
            return e.status, {"error": str(e)}
        if method != "GET":
            self._tick()
        return (201 if method == "POST" else 200), answer

    def _route(self, method: str, parts: list[str], query: Query, body: State) -> Any:
        match method, parts:
            case "GET", []:
                return {
                    "me": self.state["me"],
                    "now": self.state["now"],
                    "paths": ["mail", "events", "chat", "contacts", "files"],
                }
            case "GET", ["mail" | "events" | "contacts" as kind]:
                return self._list(kind, query)
            case "GET", ["mail" | "events" | "contacts" as kind, name]:
                return self._item(kind, name)
            case "POST", ["mail" | "events" | "contacts" as kind]:
                return self._create(kind, _checked(kind, body, tuple(FIELDS[kind])))
            case "POST", ["mail", name, "reply" | "forward" as how]:
                return self._answer(self._item("mail", name), how, body)
            case "PATCH", ["mail" | "events" | "contacts" as kind, name]:
                return self._change(kind, name, body)
            case "DELETE", ["mail" | "events" | "contacts" as kind, name]:
                self._item(kind, name)
                return self.state[kind].pop(name)
            case _, ["chat", *rest]:
                return self._chat(method, rest, query, body)
            case _, ["files", *rest]:
                return self._files(method, "/".join(rest), query, body)
        raise Refused(404, f"there is no {method} /{'/'.join(parts)}; GET / says what there is")

    def _list(self, kind: str, query: Query) -> State:
        items = list(self.state[kind].values())
        if kind == "mail":
            folder = query.get("folder", "")
            if folder and folder not in self.state["folders"]:
                raise Refused(400, f"there is no folder {folder!r}; there are: {', '.join(self.state['folders'])}")
            items = [m for m in items if folder in ("", m["folder"])][::-1]
        if kind == "events":
            items = [e for e in items if _of_day(e, query.get("day", "")) and _with(e, query.get("attendee", ""))]
            items.sort(key=lambda e: (e["start"], e["id"]))
        return _page([item for item in items if _matches(item, query.get("query", ""))], query)

    def _item(self, kind: str, name: str) -> State:
        if name not in self.state[kind]:
            raise Refused(404, f"there is no {name!r} in {kind}; list or search to see the ids")
        found: State = self.state[kind][name]
        return found

    def _create(self, kind: str, fields: State) -> State:
        if missing := [name for name in NEEDED[kind] if not fields.get(name)]:
            raise Refused(400, f"{kind} needs {', '.join(NEEDED[kind])}; missing: {', '.join(missing)}")
        if kind == "mail":
            fields = {"from": self.state["me"], "cc": [], **fields, "date": self.state["now"], "folder": "sent"}
        elif kind == "events":
            fields = {"attendees": [self.state["me"]], "place": "", **fields}
            _check_times(fields)
        else:
            fields = {"phone": "", "company": "", **fields}
        self.state["last"][kind] += 1
        name = f"{PREFIX[kind]}{self.state['last'][kind]}"
        self.state[kind][name] = {"id": name, **fields}
        return self._item(kind, name)

    def _answer(self, mail: State, how: str, body: State) -> State:
        fields = _checked("mail", body, ("to", "text"))
        if how == "reply":
            wanted = {"to": [mail["from"]], "subject": _prefixed("Re: ", mail["subject"]), "text": fields.get("text", "")}
        else:
            text = "\n\n".join(part for part in (fields.get("text", ""), f"From: {mail['from']}\n{mail['text']}") if part)
            wanted = {"to": fields.get("to", []), "subject": _prefixed("Fwd: ", mail["subject"]), "text": text}
        return self._create("mail", {**wanted, "answers": mail["id"]})

    def _change(self, kind: str, name: str, body: State) -> State:
        item, fields = self._item(kind, name), _checked(kind, body, CHANGED[kind])
        if not fields:
            raise Refused(400, f"nothing to change; {kind} may change: {', '.join(CHANGED[kind])}")
        if kind == "mail" and fields["folder"] not in self.state["folders"]:
            raise Refused(400, f"there is no folder {fields['folder']!r}; there are: {', '.join(self.state['folders'])}")
        item |= fields
        if kind == "events":
            _check_times(item)
        return item

    def _chat(self, method: str, rest: list[str], query: Query, body: State) -> Any:
        channels = self.state["chat"]
        if method == "GET" and not rest:
            return {"items": [{"id": name, "messages": len(channels[name])} for name in channels]}
        if len(rest) != 1 or rest[0] not in channels:
            raise Refused(404, f"there is no such channel; there are: {', '.join(channels)}")
        if method == "GET":
            return _page([m for m in channels[rest[0]] if _matches(m, query.get("query", ""))], query)
        if method != "POST" or not isinstance(body.get("text"), str) or not body["text"].strip():
            raise Refused(400, "a channel takes POST with a text; what was said stays")
        channels[rest[0]].append({"from": self.state["me"], "date": self.state["now"], "text": body["text"]})
        return channels[rest[0]][-1]

    def _files(self, method: str, path: str, query: Query, body: State) -> Any:
        files = self.state["files"]
        if method == "GET" and not path:
            found = [p for p in sorted(files) if query.get("query", "").lower() in f"{p}\n{files[p]}".lower()]
            return _page([{"path": p, "bytes": len(files[p].encode())} for p in found], query)
        if method == "PUT" and path:
            if not isinstance(body.get("text"), str):
                raise Refused(400, "a file is written with a text")
            files[path] = body["text"]
        elif path not in files:
            raise Refused(404, f"there is no file {path!r}; list the files to see the paths")
        text = files.pop(path) if method == "DELETE" else files[path]
        if method not in ("GET", "PUT", "DELETE"):
            raise Refused(405, "files take GET, PUT and DELETE")
        return {"path": path, "text": text}

    def _tick(self) -> None:
        now = datetime.strptime(self.state["now"], MINUTE) + timedelta(minutes=1)
        self.state["now"] = now.strftime(MINUTE)


def _checked(kind: str, body: State, allowed: tuple[str, ...]) -> State:
    """The fields of a body, each of its type."""
    for name, value in body.items():
        if name not in allowed:
            raise Refused(400, f"{kind} has no {name!r} to set here; there are: {', '.join(allowed)}")
        if FIELDS[kind][name] is str and not isinstance(value, str):
            raise Refused(400, f"{name} must be a text")
        if FIELDS[kind][name] is list:
            _check_addresses(name, value)
    return dict(body)


def _check_addresses(name: str, value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise Refused(400, f"{name} must be a list of addresses")
    if bad := [each for each in value if "@" not in each]:
        raise Refused(400, f"{bad[0]!r} is no address; contacts has the addresses of people")


def _check_times(event: State) -> None:
    try:
        start, end = (datetime.strptime(event[name], MINUTE) for name in ("start", "end"))
    except ValueError:
        raise Refused(400, "start and end are times such as 2026-03-02T09:30") from None
    if end <= start:
        raise Refused(400, "an event ends after it starts")


def _page(items: list[State], query: Query) -> State:
    page = query.get("page", "1")
    if not page.isdecimal() or page == "0":
        raise Refused(400, "page is a number from 1")
    pages = max(1, -(-len(items) // PAGE))
    first = (int(page) - 1) * PAGE
    return {"items": items[first : first + PAGE], "page": int(page), "pages": pages, "total": len(items)}


def _matches(item: State, words: str) -> bool:
    """Whether all words are somewhere in it."""
    text = "\n".join(" ".join(v) if isinstance(v, list) else str(v) for v in item.values()).lower()
    return all(word in text for word in words.lower().split())


def _of_day(event: State, day: str) -> bool:
    return not day or event["start"][:10] <= day <= event["end"][:10]


def _with(event: State, address: str) -> bool:
    return not address or address in event["attendees"]


def _prefixed(prefix: str, subject: str) -> str:
    return subject if subject.startswith(prefix) else prefix + subject
