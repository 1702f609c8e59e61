"""Starts browser-use on a task: ``python browser_agent.py INSTRUCTION_FILE``.

Environment: OPENAI_BASE_URL, OPENAI_API_KEY, OPENAI_MODEL, CHROMIUM (/usr/bin/chromium), MAX_TURNS (20).
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from browser_use import Agent, Browser, ChatOpenAI

QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-gpu")


async def main(instruction: str) -> None:
    env = os.environ
    model = ChatOpenAI(model=env["OPENAI_MODEL"], api_key=env["OPENAI_API_KEY"], base_url=env["OPENAI_BASE_URL"])
    browser = Browser(
        headless=True, executable_path=env.get("CHROMIUM", "/usr/bin/chromium"), chromium_sandbox=False,
        enable_default_extensions=False, args=list(QUIET),
    )  # fmt: skip
    await Agent(task=instruction, llm=model, browser=browser, use_vision=True).run(max_steps=int(env.get("MAX_TURNS", "20")))
    await browser.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text(encoding="utf-8").strip()))
