"""The engine of the suite as a process: ``python -m tests.conformance.engine --port P --log FILE --max-model-len N``."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from tests.conformance.model import ConformanceModel
from tests.conformance.programs import load_programs
from tests.engine.real import RealEngine
from tests.engine.real_tokenizer import tokenizer


async def serve(port: int, log: Path, max_model_len: int) -> None:
    """Serves until it is ended."""
    tokenizer()  # before the first call
    engine = RealEngine(ConformanceModel(load_programs()), log, max_model_len)
    await engine.start(port)
    await asyncio.Event().wait()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="The engine of the conformance suite.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--max-model-len", type=int, required=True)
    args = parser.parse_args()
    asyncio.run(serve(args.port, args.log, args.max_model_len))


if __name__ == "__main__":
    main()
