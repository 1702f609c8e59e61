"""Where requests of harnesses go: a path and a secret become a call in some dialect."""

from __future__ import annotations

import asyncio
import logging
import time
from urllib.parse import parse_qs, unquote

import orjson

from services.proxy.boxes import BOXES, serve_runner
from services.proxy.calls import Calls
from services.proxy.client import JSON, Client
from services.proxy.dialects.anthropic import AnthropicMessages
from services.proxy.dialects.base import Dialect, Target
from services.proxy.dialects.gemini import Gemini
from services.proxy.dialects.openai_chat import OpenAIChat
from services.proxy.dialects.openai_responses import OpenAIResponses
from services.proxy.errors import ClientLeft, Refused, unavailable
from shared.store.boxes import Boxes

log = logging.getLogger(__name__)

_CHAT = OpenAIChat()
DIALECTS: tuple[Dialect, ...] = (_CHAT, OpenAIResponses(), AnthropicMessages(), Gemini())
MODELS = ("/v1/models", "/api/v1/models", "/models", "/v1beta/models")
HELLO = "/api/hello"
"""Claude Code asks it whether there is a network."""


class Gateway:
    """Answers requests below `/run/<secret>/` and `/v1/`, and those of runners below `/box/`.

    Args:
        calls: serves model calls.
        boxes: gives runners their work.
        model: name that `/v1/models` gives; any name is accepted in calls.
        max_model_len: tokens of prompt and completion together.
    """

    def __init__(self, calls: Calls, boxes: Boxes, model: str, max_model_len: int) -> None:
        self._calls, self._boxes = calls, boxes
        self._model = model
        self._max_model_len = max_model_len

    async def serve(self, client: Client) -> None:
        """Serves one request; whatever happens, it is answered in the shape of its API."""
        secret, path = split_path(client.path)
        dialect = next((d for d in DIALECTS if d.takes(path)), None)
        wording = dialect or _CHAT
        try:
            if dialect is not None and client.method == "POST":
                target = Target(path, client.query, client.headers)
                await self._calls.serve(dialect, target, secret or _key(target), client)
            else:
                await self._other(path, dialect, client)
        except ClientLeft:
            return
        except Refused as e:
            await self._calls.fail(wording, client, e)
        except asyncio.CancelledError:
            if not client.started:
                await self._calls.fail(wording, client, unavailable("the proxy is stopping"))
            raise
        except Exception:
            log.exception("a request failed in a way that was not foreseen")
            if not client.done:
                await self._calls.fail(wording, client, Refused(500, "internal_error", "the proxy failed; its log says why"))

    async def _other(self, path: str, dialect: Dialect | None, client: Client) -> None:
        """What is no model call."""
        if path.startswith(BOXES):
            await serve_runner(self._boxes, client, path)
            return
        if client.headers.get("upgrade", "").lower() == "websocket":
            raise Refused(426, "websocket_not_supported", "WebSocket is not spoken here; use plain HTTP requests")
        if dialect is not None:
            raise Refused(405, "method_not_allowed", f"{path} takes POST")
        if client.method not in ("GET", "HEAD") or path not in (*MODELS, HELLO):
            raise Refused(404, "not_found", f"no such route: {client.method} {path}")
        await client.respond(200, JSON, b"{}" if path == HELLO else self._models())

    def _models(self) -> bytes:
        model = {"id": self._model, "object": "model", "created": int(time.time()), "owned_by": "openforge"}
        stated = {"max_model_len": self._max_model_len, "context_length": self._max_model_len}
        return orjson.dumps({"object": "list", "data": [model | stated]})


def split_path(path: str) -> tuple[str, str]:
    """(secret, API path) of a request path; the secret is empty when the path holds none.

    >>> split_path("/run/s3cret/v1/models")
    ('s3cret', '/v1/models')
    """
    if not path.startswith("/run/"):
        return "", path
    secret, slash, rest = path.removeprefix("/run/").partition("/")
    return secret, slash + rest


def _key(target: Target) -> str:
    """The API key, wherever the dialects put it."""
    scheme, _, key = target.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return key.strip()
    named = target.headers.get("x-api-key") or target.headers.get("x-goog-api-key")
    return named or unquote(parse_qs(target.query).get("key", [""])[0])
