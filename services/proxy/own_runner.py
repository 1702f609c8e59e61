"""Sessions of harnesses that somebody else's runner launches.

The orchestrator knows nothing of such a rollout. What it would have told the collector is published here: that the rollout
began, and with which reward it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, HTTPException, Request, Response

from services.proxy.client import JSON
from services.proxy.control import SESSIONS, Control
from services.proxy.own_bodies import Closed, Created, Reward, created, read_reward, read_wanted
from services.proxy.sessions import Own, SessionMeta, read_meta
from shared.bus import Bus
from shared.errors import VerifierError
from shared.events import RolloutFailed, RolloutFinished, RolloutScheduled, RolloutStarted
from shared.ids import session_id
from shared.store.sessions import Sessions

SANDBOX = "own"
"""`RolloutStarted.sandbox` where the isolation is the other runner's business."""


class OwnRunner:
    """What a runner of one's own can ask for.

    Args:
        run_id: of the run.
        bus: takes what the orchestrator would say.
        sessions: keep rewards.
        control: opens and seals sessions.
    """

    def __init__(self, run_id: str, bus: Bus, sessions: Sessions, control: Control) -> None:
        self._run_id = run_id
        self._bus = bus
        self._sessions = sessions
        self._control = control

    async def create(self, body: bytes, root: str) -> Created:
        """Opens a session and publishes that its rollout began.

        Args:
            body: JSON of `Wanted`.
            root: URL of this proxy as the caller sees it, without a slash at its end.

        Raises:
            ConfigError: the body is not acceptable.
            StoreUnavailable, BusUnavailable: to be tried again; with a rollout id, that gives the same session.
            HTTPException: 409, there is such a session, and it is over or was created with another body.
        """
        meta, own = read_wanted(body)
        session, given = session_id(meta.rollout_id, meta.attempt), msgspec.json.encode(meta)
        secret = await self._control.open(session, given)
        if await self._sessions.meta(session) != given:
            raise HTTPException(
                409, f"session {session} was created with another body; use another rollout_id, or leave it out for a new one"
            )
        about = self._about(meta)
        await self._bus.publish(RolloutScheduled(**about, **msgspec.structs.asdict(own)))
        await self._bus.publish(RolloutStarted(**about, sandbox=SANDBOX))
        return created(session, meta, secret, root)

    async def reward(self, session: str, body: bytes) -> Reward:
        """Keeps the reward of a session, in place of an earlier one.

        Raises:
            ConfigError: the body is not acceptable.
            StoreUnavailable: to be tried again.
            HTTPException: 404, there is no such session; 409, it has ended, or is the orchestrator's.
        """
        reward = read_reward(body)
        await self._find(session)
        if not await self._sessions.score(session, reward):
            raise HTTPException(409, f"session {session} has ended; set the reward before that")
        return Reward(reward)

    async def end(self, session: str) -> Closed:
        """Seals a session and publishes how its rollout ended; doing it again gives the same answer.

        Raises:
            StoreUnavailable, BusUnavailable: to be tried again.
            HTTPException: 404, there is no such session; 409, it is the orchestrator's.
        """
        meta, own = await self._find(session)
        seal = await self._control.seal(session)
        reward = await self._sessions.finish(session)
        await self._bus.publish(self._outcome(meta, own, reward))
        return Closed(session_id=session, reward=reward, calls=seal.calls, errored=seal.errored, cut=seal.cut, lost=seal.lost)

    async def _find(self, session: str) -> tuple[SessionMeta, Own]:
        body = await self._sessions.meta(session)
        if body is None:
            raise HTTPException(404, f"there is no session {session}; POST {SESSIONS} creates one")
        meta = read_meta(body)
        if meta.own is None:
            raise HTTPException(409, f"session {session} is the orchestrator's, which scores and ends it itself")
        return meta, meta.own

    def _outcome(self, meta: SessionMeta, own: Own, reward: float | None) -> RolloutFinished | RolloutFailed:
        about = self._about(meta) | msgspec.structs.asdict(own)
        if reward is not None:
            return RolloutFinished(**about, reward=reward)
        detail = "the session was ended without a reward; set it before the end"
        return RolloutFailed(**about, reason=VerifierError.__name__, detail=detail, sealed=True)

    def _about(self, meta: SessionMeta) -> dict[str, Any]:
        return {
            "run_id": self._run_id, "rollout_id": meta.rollout_id, "attempt": meta.attempt,
            "group_id": meta.group_id, "purpose": meta.purpose,
        }  # fmt: skip


def own_routes(runner: OwnRunner, control: Control, port: Callable[[], int]) -> APIRouter:
    """The control routes for runners of one's own. `port` is that of the routes for harnesses, on the host that was asked."""
    router = APIRouter(prefix=SESSIONS, dependencies=[Depends(control.authorized)])

    @router.post("")
    async def create_session(request: Request) -> Response:
        return _json(await runner.create(await request.body(), str(request.base_url.replace(port=port())).rstrip("/")))

    @router.post("/{session_id}/reward")
    async def set_reward(session_id: str, request: Request) -> Response:
        return _json(await runner.reward(session_id, await request.body()))

    @router.post("/{session_id}/end")
    async def end_session(session_id: str) -> Response:
        return _json(await runner.end(session_id))

    return router


def _json(answer: Created | Reward | Closed) -> Response:
    return Response(msgspec.json.encode(answer), media_type=JSON)
