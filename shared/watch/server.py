"""Serves what a process says of itself, where it has no server of its own."""

from __future__ import annotations

from aiohttp import web

from shared.config import MetricsConfig
from shared.errors import ConfigError
from shared.watch.watch import PATHS, Page, Watch

_SHUTDOWN_S = 1.0


class WatchServer:
    """A small server.

    Args:
        watch: what it tells.
        config: where it listens.
    """

    def __init__(self, watch: Watch, config: MetricsConfig) -> None:
        self._watch, self._config = watch, config
        app = web.Application()
        for path in PATHS:
            app.router.add_get(path, self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)

    async def start(self) -> None:
        """Returns once it listens; where, is `watch.url`.

        Raises:
            ConfigError: it cannot listen there.
        """
        host, port = self._config.host, self._config.port
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port).start()
        except OSError as e:
            raise ConfigError(
                f"metrics.port: cannot listen on {host}:{port} ({e.strerror}); with services that share a machine, set it to 0"
            ) from None
        bound = self._runner.addresses[0][1]
        self._watch.url = f"http://{host}:{bound}"

    async def stop(self) -> None:
        """Listens no more. Doing it again changes nothing."""
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        page: Page = await self._watch.answer(request.path)
        return web.Response(status=page.status, body=page.body, headers={"content-type": page.content_type})
