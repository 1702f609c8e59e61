"""Control routes: sessions are opened and sealed here, by whoever holds the control key; and the health of the service."""

from __future__ import annotations

import hmac
import logging

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse, Response

from services.proxy.errors import RETRY_AFTER_S
from services.proxy.known import Book
from services.proxy.sessions import read_meta, secret_of
from shared.bus import Bus
from shared.config import Config
from shared.errors import BusUnavailable, ConfigError, StoreUnavailable
from shared.events import SessionSealed
from shared.ids import check_id
from shared.store.sessions import Seal, Sessions
from shared.watch.watch import PATHS, Watch

log = logging.getLogger(__name__)

SESSIONS = "/control/sessions"


class Control:
    """What the control routes do.

    Args:
        config: resolved configuration.
        bus, sessions: what the proxy depends on.
        book: drops sessions that are over.
        key: the control key.
    """

    def __init__(self, config: Config, bus: Bus, sessions: Sessions, book: Book, key: str) -> None:
        self._config = config
        self._bus = bus
        self._sessions = sessions
        self._book = book
        self._key = key

    async def authorized(self, request: Request) -> None:  # FastAPI would run a plain function in a thread
        """Raises a 401 unless the request carries the control key."""
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, f"Bearer {self._key}".encode()):
            raise HTTPException(401, "the control key is missing or wrong: send Authorization: Bearer <key>")

    async def open(self, session_id: str, body: bytes) -> str:
        """Opens a session and gives its secret; doing it again gives the same one.

        Raises:
            ConfigError: the session id or the body is not acceptable.
            StoreUnavailable: the store did not answer.
            HTTPException: 409, the session is sealed already.
        """
        check_id(session_id, "session id")
        read_meta(body)
        secret = secret_of(self._key, self._config.run.id, session_id)
        if not await self._sessions.create(session_id, secret, body):
            raise HTTPException(
                409, f"session {session_id} is sealed, or was opened with another control key; a new attempt needs a new one"
            )
        return secret

    async def seal(self, session_id: str) -> Seal:
        """Seals a session and publishes `SessionSealed`; doing it again publishes nothing new.

        Raises:
            StoreUnavailable, BusUnavailable: to be tried again.
            HTTPException: 404, there is no such session.
        """
        meta_body = await self._sessions.meta(session_id)
        seal = await self._sessions.seal(session_id, self._config.proxy.drain_s)
        if seal is None or meta_body is None:
            raise HTTPException(404, f"there is no session {session_id}")
        meta = read_meta(meta_body)
        await self._bus.publish(
            SessionSealed(
                run_id=self._config.run.id,
                rollout_id=meta.rollout_id,
                attempt=meta.attempt,
                group_id=meta.group_id,
                purpose=meta.purpose,
                session_id=session_id,
                calls=seal.calls,
                errored=seal.errored,
                cut=seal.cut,
                lost=seal.lost,
            )
        )
        self._book.forget(session_id)
        return seal


def build_app(control: Control, watch: Watch, *more: APIRouter) -> FastAPI:
    """The FastAPI application with the control routes, more of them, and what the service says of itself."""
    app = FastAPI(title="OpenForgeRL proxy", openapi_url=None, docs_url=None, redoc_url=None)
    for router in (_session_routes(control), *more):
        app.include_router(router)

    async def tell(request: Request) -> Response:
        page = await watch.answer(request.url.path)
        return Response(page.body, page.status, media_type=page.content_type)

    for path in PATHS:
        app.get(path)(tell)

    @app.exception_handler(ConfigError)
    async def refuse(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": str(error)}, 400)

    @app.exception_handler(StoreUnavailable)
    @app.exception_handler(BusUnavailable)
    async def later(_: Request, error: Exception) -> JSONResponse:
        log.warning("control request failed: %s", error)
        return JSONResponse({"detail": str(error)}, 503, {"retry-after": str(RETRY_AFTER_S)})

    return app


def _session_routes(control: Control) -> APIRouter:
    router = APIRouter(prefix=SESSIONS, dependencies=[Depends(control.authorized)])

    @router.put("/{session_id}")
    async def open_session(session_id: str, request: Request) -> JSONResponse:
        secret = await control.open(session_id, await request.body())
        return JSONResponse({"secret": secret, "path": f"/run/{secret}"})

    @router.post("/{session_id}/seal")
    async def seal_session(session_id: str) -> JSONResponse:
        seal = await control.seal(session_id)
        return JSONResponse({"calls": seal.calls, "errored": seal.errored, "cut": seal.cut, "lost": seal.lost})

    return router
