"""Model routes as one bare ASGI endpoint: a path and a secret become a call in some dialect."""

from __future__ import annotations

import asyncio
import logging
import time
from urllib.parse import parse_qs, unquote

import orjson

from services.proxy.calls import Calls, fail
from services.proxy.client import JSON, Client, Receive, Scope, Send
from services.proxy.dialects.anthropic import AnthropicMessages
from services.proxy.dialects.base import Dialect, Target
from services.proxy.dialects.gemini import Gemini
from services.proxy.dialects.openai_chat import OpenAIChat
from services.proxy.dialects.openai_responses import OpenAIResponses
from services.proxy.errors import ClientLeft, Refused, unavailable

log = logging.getLogger(__name__)

_CHAT = OpenAIChat()
DIALECTS: tuple[Dialect, ...] = (_CHAT, OpenAIResponses(), AnthropicMessages(), Gemini())
MODELS = ("/v1/models", "/api/v1/models", "/models", "/v1beta/models")
HELLO = "/api/hello"
"""Claude Code asks it whether there is a network."""


class Gateway:
    """The ASGI application behind `/run/<secret>/...` and `/v1/...`.

    Args:
        calls: serves model calls.
        model: name that `/v1/models` gives; any name is accepted in calls.
        max_model_len: tokens of prompt and completion together.
    """

    def __init__(self, calls: Calls, model: str, max_model_len: int) -> None:
        self._calls = calls
        self._model = model
        self._max_model_len = max_model_len

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request; whatever happens, it is answered in the shape of its API."""
        client = Client(scope, receive, send)
        secret, path = split_path(scope["path"])
        target = Target(path, scope.get("query_string", b"").decode("latin-1"), client.headers)
        dialect = next((d for d in DIALECTS if d.takes(path)), None)
        wording = dialect or _CHAT
        try:
            if dialect is not None and scope["method"] == "POST":
                await self._calls.serve(dialect, target, secret or _key(target), client)
            else:
                await self._other(scope["method"], target, dialect, client)
        except ClientLeft:
            return
        except Refused as e:
            await fail(wording, client, e)
        except asyncio.CancelledError:
            if not client.started:
                await fail(wording, client, unavailable("the proxy is stopping"))
            raise
        except Exception:
            log.exception("a request failed in a way that was not foreseen")
            await fail(wording, client, Refused(500, "internal_error", "the proxy failed; its log says why"))
        finally:
            client.close()

    async def _other(self, method: str, target: Target, dialect: Dialect | None, client: Client) -> None:
        """What is no model call."""
        if target.headers.get("upgrade", "").lower() == "websocket":
            raise Refused(426, "websocket_not_supported", "WebSocket is not spoken here; use plain HTTP requests")
        if dialect is not None:
            raise Refused(405, "method_not_allowed", f"{target.path} takes POST")
        if method not in ("GET", "HEAD") or target.path not in (*MODELS, HELLO):
            raise Refused(404, "not_found", f"no such route: {method} {target.path}")
        await client.respond(200, JSON, b"{}" if target.path == HELLO else self._models())

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
