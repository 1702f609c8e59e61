"""Runs browser-use on a task: one agent, Chromium without a window, and a site that the task serves itself.

    python browser_agent.py INSTRUCTION_FILE

To the browser the site is `http://site.test/`, whatever its port, so that prompts do not differ from rollout to rollout; no
other name is known to it. Environment: OPENAI_BASE_URL, OPENAI_MODEL, OPENAI_API_KEY; START, shell command that serves
127.0.0.1:$PORT; MAX_TURNS; LOGS_DIR.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from pathlib import Path

from browser_use import Agent, Browser, ChatOpenAI

SITE = "site.test"
CHROMIUM = "/usr/lib/chromium/chromium"
"""Not /usr/bin/chromium: that script fails without /etc/chromium.d, which a sandbox does not show."""
SERVE_S = 20.0
"""How long the site may take to come up."""


async def serve(start: str) -> int:
    """Starts the site; returns its port once it can be connected to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    server = await asyncio.create_subprocess_exec("/bin/sh", "-c", start, env=env | {"PORT": str(port)})
    async with asyncio.timeout(SERVE_S):
        while server.returncode is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return port
    sys.exit(f"{start!r} ended with status {server.returncode} before it served anything")


def browser(port: int) -> Browser:
    """A browser for the site on that port."""
    rules = f"MAP {SITE}:80 127.0.0.1:{port}, MAP * ~NOTFOUND"
    quiet = (
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-gpu",
        "--disable-sync",
        "--log-level=3",
    )
    return Browser(
        headless=True, executable_path=CHROMIUM, chromium_sandbox=False, enable_default_extensions=False,
        args=[f"--host-resolver-rules={rules}", *quiet],
    )  # fmt: skip


def model() -> ChatOpenAI:
    """The model. What its answers must look like stands in the prompt: under a grammar they could not be trained on."""
    env = os.environ
    return ChatOpenAI(
        model=env["OPENAI_MODEL"], base_url=env["OPENAI_BASE_URL"], api_key=env["OPENAI_API_KEY"],
        add_schema_to_system_prompt=True, dont_force_structured_output=True,
    )  # fmt: skip


async def main() -> None:
    logging.getLogger("httpx2").setLevel(
        logging.WARNING
    )  # it would log the endpoint's address, with the rollout's secret in it
    port = await serve(os.environ["START"])
    agent = Agent(
        task=Path(sys.argv[1]).read_text(encoding="utf-8").strip(), llm=model(), browser=browser(port),
        initial_actions=[{"navigate": {"url": f"http://{SITE}/", "new_tab": False}}],
    )  # fmt: skip
    history = await agent.run(max_steps=int(os.environ["MAX_TURNS"]))
    history.save_to_file(Path(os.environ["LOGS_DIR"], "agent", "history.json"))


if __name__ == "__main__":
    asyncio.run(main())
