"""The parts of the computer-use agent that need no screen: what calls mean, pictures, patience."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.orchestrator.harnesses.adapters.programs.computer.actions import Act, BadCall, read_call, tool
from services.orchestrator.harnesses.adapters.programs.computer.chat import Endpoint, NoAnswer
from services.orchestrator.harnesses.adapters.programs.computer.screen import Frame, data_url, parse_xwd, png
from tests.unit.orchestrator.house import StandIn, commands

ALL_ACTIONS = tool(640, 480)["function"]["parameters"]["properties"]["action"]["enum"]


def read(**arguments: Any) -> Act:
    return read_call("computer", msgspec.json.encode(arguments).decode(), 640, 480)


@pytest.mark.parametrize(
    ("arguments", "act"),
    [
        ({"action": "screenshot"}, Act()),
        ({"action": "click", "x": 0, "y": 479}, Act(("mousemove", "0", "479", "click", "1"))),
        ({"action": "click", "x": 9, "y": 8, "button": "right"}, Act(("mousemove", "9", "8", "click", "3"))),
        (
            {"action": "double_click", "x": 9, "y": 8},
            Act(("mousemove", "9", "8", "click", "--repeat", "2", "--delay", "80", "1")),
        ),
        ({"action": "move", "x": 9, "y": 8}, Act(("mousemove", "9", "8"))),
        (
            {"action": "drag", "x": 1, "y": 2, "to_x": 3, "to_y": 4},
            Act(("mousemove", "1", "2", "mousedown", "1", "mousemove", "3", "4", "mouseup", "1")),
        ),
        ({"action": "type", "text": "--delay -1"}, Act(("type", "--delay", "12", "--", "--delay -1"))),
        ({"action": "key", "keys": "ctrl+a Return"}, Act(("key", "--delay", "20", "--", "ctrl+a", "Return"))),
        (
            {"action": "scroll", "x": 9, "y": 8, "direction": "up", "amount": 5},
            Act(("mousemove", "9", "8", "click", "--repeat", "5", "--delay", "20", "4")),
        ),
        ({"action": "wait", "seconds": 2.5}, Act(wait_s=2.5)),
        ({"action": "done"}, Act(done=True)),
    ],
)
def test_calls_become_arguments_of_xdotool(arguments: dict[str, Any], act: Act) -> None:
    assert read(**arguments) == act


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "action must be one of screenshot, click"),
        ({"action": "exec"}, "action must be one of"),
        ({"action": "click", "x": 1}, "y must be a whole number from 0 to 479"),
        ({"action": "click", "x": 640, "y": 1}, "x must be a whole number from 0 to 639"),
        ({"action": "click", "x": True, "y": 1}, "x must be"),
        ({"action": "click", "x": 1, "y": 1, "button": "4"}, "button must be one of left, middle, right"),
        ({"action": "drag", "x": 1, "y": 2, "to_x": 3}, "to_y must be"),
        ({"action": "type"}, "text must be"),
        ({"action": "type", "text": "a\0"}, "text must be"),
        ({"action": "key", "keys": " "}, "keys must name a key"),
        ({"action": "scroll", "x": 1, "y": 1, "amount": 51}, "amount must be"),
        ({"action": "wait", "seconds": 11}, "seconds must be"),
        ({"action": "wait", "seconds": "1"}, "seconds must be"),
    ],
)
def test_bad_calls_say_what_is_wrong(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadCall, match=complaint):
        read(**arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [("bash", "{}", "no tool 'bash'"), ("computer", "{", "not valid JSON"), ("computer", "[]", "action must be")],
)
def test_calls_of_something_else_say_so(name: str, arguments: str, complaint: str) -> None:
    with pytest.raises(BadCall, match=complaint):
        read_call(name, arguments, 640, 480)


_values = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text("a1 \0", max_size=5), st.lists(st.integers()))


@given(st.sampled_from(ALL_ACTIONS), st.dictionaries(st.sampled_from(["x", "y", "text", "keys", "amount", "seconds"]), _values))
def test_any_arguments_are_an_act_or_a_complaint(action: str, arguments: dict[str, Any]) -> None:
    try:
        act = read(**arguments, action=action)
    except BadCall:
        return
    assert 0 <= act.wait_s <= 10
    assert not any("\0" in argument for argument in act.xdotool)


def xwd(frame: Frame, colours: int = 0, **changes: int) -> bytes:
    fields = {"header": 100, "width": frame.width, "height": frame.height, "order": 0, "bits": 32, "line": frame.width * 4}
    fields |= changes
    header = [0] * 25
    for at, name in ((0, "header"), (4, "width"), (5, "height"), (7, "order"), (11, "bits"), (12, "line")):
        header[at] = fields[name]
    header[19] = colours
    return struct.pack(">25I", *header) + b"c" * 12 * colours + frame.pixels + b"rest"


def test_a_framebuffer_file_is_read() -> None:
    frame = Frame(2, 3, bytes(range(24)))
    assert parse_xwd(xwd(frame, colours=256)) == frame
    assert not frame.blank
    assert Frame(2, 3, b"abcd" * 6).blank
    for odd in ({"order": 1}, {"bits": 24}, {"line": 12}):
        with pytest.raises(ValueError, match="a framebuffer of"):
            parse_xwd(xwd(frame, **odd))


def test_a_picture_has_the_pixels_of_its_frame() -> None:
    picture = png(Frame(2, 2, b"BGR.bgr.123.456."))
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(picture):
        (length,) = struct.unpack_from(">I", picture, at)
        kind, data = picture[at + 4 : at + 8], picture[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", picture, at + 8 + length) == (zlib.crc32(kind + data),)
        chunks[kind] = data
        at += 12 + length
    assert chunks[b"IHDR"] == struct.pack(">2I5B", 2, 2, 8, 2, 0, 0, 0)
    assert zlib.decompress(chunks[b"IDAT"]) == b"\0RGBrgb\0" + b"321654"
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert data_url(b"\xff\xfe") == "data:image/png;base64,//4="


def endpoint(proxy: StandIn, patience_s: float = 20) -> Endpoint:
    proxy.opened["s"], proxy.calls["s"] = {}, 0
    return Endpoint(f"http://127.0.0.1:{proxy.port}/run/s/v1", "policy", "key", patience_s)


async def test_a_busy_endpoint_is_asked_again(proxy: StandIn) -> None:
    proxy.script, proxy.chat_status = commands(), 503
    asking = asyncio.create_task(asyncio.to_thread(endpoint(proxy).ask, [{"role": "user", "content": "hi"}], []))
    async with asyncio.timeout(20):
        while not proxy.errored.get("s"):  # noqa: ASYNC110 - it asks in another thread
            await asyncio.sleep(0.01)
    proxy.chat_status = 200
    assert await asking == {"role": "assistant", "content": "done"}


@pytest.mark.parametrize(("status", "calls"), [(400, 1), (503, 2)])
async def test_a_refusal_is_final_and_patience_ends(proxy: StandIn, status: int, calls: int) -> None:
    proxy.chat_status = status
    with pytest.raises(NoAnswer, match=f"HTTP {status}"):
        await asyncio.to_thread(endpoint(proxy, 0.3).ask, [], [])
    assert proxy.calls["s"] == calls
