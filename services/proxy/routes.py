"""Model routes as one bare ASGI endpoint: a path and a secret become a call in some dialect."""

from __future__ import annotations

import asyncio
import logging
import time

import orjson

from services.proxy.calls import Calls
from services.proxy.client import JSON, Client, Receive, Scope, Send
from services.proxy.dialects.base import Dialect
from services.proxy.dialects.openai_chat import OpenAIChat
from services.proxy.errors import ClientLeft, Refused, unavailable

log = logging.getLogger(__name__)

_CHAT = OpenAIChat()
DIALECTS: dict[str, Dialect] = {"/v1/chat/completions": _CHAT}
MODELS = "/v1/models"


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
        dialect = DIALECTS.get(path, _CHAT)
        try:
            await self._route(scope["method"], path, dialect, secret or _key(client.headers), client)
        except ClientLeft:
            return
        except Refused as e:
            await _refuse(client, dialect, e)
        except asyncio.CancelledError:
            if not client.started:
                await _refuse(client, dialect, unavailable("the proxy is stopping"))
            raise
        except Exception:
            log.exception("a request failed in a way that was not foreseen")
            if not client.started:
                await _refuse(client, dialect, Refused(500, "internal_error", "the proxy failed; its log says why"))
        finally:
            client.close()

    async def _route(self, method: str, path: str, dialect: Dialect, secret: str, client: Client) -> None:
        if client.headers.get("upgrade", "").lower() == "websocket":
            raise Refused(426, "websocket_not_supported", "WebSocket is not spoken here; use plain HTTP requests")
        if path == MODELS and method in ("GET", "HEAD"):
            await client.respond(200, JSON, self._models())
        elif path not in DIALECTS:
            raise Refused(404, "not_found", f"no such route: {path}")
        elif method != "POST":
            raise Refused(405, "method_not_allowed", f"{path} takes POST")
        else:
            await self._calls.serve(dialect, secret, client)

    def _models(self) -> bytes:
        model = {"id": self._model, "object": "model", "created": int(time.time()), "owned_by": "openforge"}
        return orjson.dumps({"object": "list", "data": [model | {"max_model_len": self._max_model_len}]})


def split_path(path: str) -> tuple[str, str]:
    """(secret, API path) of a request path; the secret is empty when the path holds none.

    >>> split_path("/run/s3cret/v1/models")
    ('s3cret', '/v1/models')
    """
    if not path.startswith("/run/"):
        return "", path
    secret, slash, rest = path.removeprefix("/run/").partition("/")
    return secret, slash + rest


def _key(headers: dict[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else headers.get("x-api-key", "")


async def _refuse(client: Client, dialect: Dialect, error: Refused) -> None:
    headers = error.headers | ({"connection": "close"} if error.status == 413 else {})
    await client.respond(error.status, JSON, dialect.error(error), **headers)
