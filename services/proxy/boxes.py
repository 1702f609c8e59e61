"""Work for runners in containers: the orchestrator leaves it by the control routes, and runners fetch it with their ticket.

In turn they leave what the orchestrator is to have of a sandbox that cannot be looked into any more.
"""

from __future__ import annotations

import hashlib

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Request
from fastapi.responses import JSONResponse, Response

from services.proxy.client import Client
from services.proxy.control import Control
from services.proxy.errors import Refused, unavailable
from services.proxy.sessions import secret_of
from shared.errors import StoreUnavailable
from shared.ids import check_id
from shared.store.boxes import Boxes

BOXES = "/box/"
"""Where runners fetch: `/box/<ticket>/<name>`."""
SPEC = "spec"
MAX_PACKAGE = 64 << 20
"""Bytes of a packed package; what is larger belongs into an image."""
MAX_BOX = 8 << 20
LEAVE_S = 300.0
"""How long it may take to come."""


class Box(msgspec.Struct, forbid_unknown_fields=True):
    """What is left for one sandbox: its runner's spec, the hashes of its packages by name, and names of what it may leave."""

    spec: msgspec.Raw
    packages: dict[str, str] = {}
    leaves: list[str] = []


async def serve_runner(boxes: Boxes, client: Client, path: str) -> None:
    """Answers a runner.

    Raises:
        Refused: 404, the ticket opens nothing of that name; 405; 408 and 413, what it leaves takes too long or is too large;
            503, the store did not answer.
        ClientLeft: it hung up.
    """
    ticket, _, name = path.removeprefix(BOXES).partition("/")
    try:
        match client.method:
            case "GET":
                body = await (boxes.spec(ticket) if name == SPEC else boxes.package(ticket, name))
            case "PUT":
                body = await _take(boxes, client, ticket, name)
            case _:
                raise Refused(405, "method_not_allowed", f"{BOXES} takes GET and PUT")
    except StoreUnavailable as e:
        raise unavailable(str(e)) from e
    if body is None:
        raise Refused(404, "not_found", f"the ticket opens no {name!r}: it is not known, or has expired")
    await client.respond(200, "application/octet-stream", body)


async def _take(boxes: Boxes, client: Client, ticket: str, name: str) -> bytes | None:
    """Keeps what a runner leaves, if its box awaits that."""
    if not await boxes.awaits(ticket, name):
        return None
    await boxes.leave(ticket, name, await client.read(MAX_PACKAGE, LEAVE_S))
    return b""


def box_routes(boxes: Boxes, control: Control, key: str, run_id: str) -> APIRouter:
    """The control routes that work is left by. Tickets are derived from the control key, the same for the same session."""
    router = APIRouter(prefix="/control", dependencies=[Depends(control.authorized)])

    def ticket_of(session_id: str) -> str:
        return secret_of(key, run_id, f"box/{session_id}")

    @router.put("/packages/{sha256}")
    async def put_package(sha256: str, request: Request) -> JSONResponse:
        body = await _body(request, MAX_PACKAGE)
        if hashlib.sha256(body).hexdigest() != sha256:
            raise HTTPException(400, "the package is not what its hash says")
        await boxes.put_package(sha256, body)
        return JSONResponse({"size": len(body)})

    @router.put("/boxes/{session_id}")
    async def put_box(session_id: str, request: Request) -> JSONResponse:
        check_id(session_id, "session id")
        try:
            box = msgspec.json.decode(await _body(request, MAX_BOX), type=Box)
        except msgspec.DecodeError as e:
            raise HTTPException(400, f"not a box: {e}") from None
        ticket = ticket_of(session_id)
        missing = await boxes.put(ticket, bytes(box.spec), box.packages, box.leaves)
        return JSONResponse({"ticket": "" if missing else ticket, "missing": missing})

    @router.get("/boxes/{session_id}/{name}")
    async def get_left(session_id: str, name: str) -> Response:
        body = await boxes.left(ticket_of(session_id), name)
        if body is None:
            raise HTTPException(404, f"nothing was left there as {name!r}, or too long ago")
        return Response(body, media_type="application/octet-stream")

    return router


async def _body(request: Request, limit: int) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise HTTPException(413, f"larger than {limit >> 20} MiB; put what is so large into the task's image")
    return bytes(body)
