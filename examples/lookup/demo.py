"""The demo from nothing: ``python -m examples.lookup.demo [--seed N] [--harness react|mini|pi] [more]``.

Makes the untrained model and the warm-start rows once per seed, in ``$OPENFORGE_CACHE`` (default ``~/.cache/openforge``), then
becomes ``openforge run`` on the example's configuration. What it does not know is passed on, such as ``--set run.root=FOLDER``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from examples.lookup.words import WORDINGS

HERE = Path(__file__).parent
CONFIG = HERE / "openforge.toml"
ROWS = 9600  # steps x batch of the warm start: no row is seen twice
SLOW_START = {
    "orchestrator.concurrency": 4, "trainer.groups": 6, "trainer.steps": 6, "trainer.step_timeout_s": 1800,
    "trainer.eval_episodes": 32,
}  # fmt: skip
"""For programs that need seconds of CPU to start, where `react` needs hundredths: fewer rollouts, and fewer at once."""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description="Train the look-up agent, from nothing to a held-out score.",
        epilog="Further options go to `openforge run`, such as --set trainer.optim.lr=1e-3.",
    )
    parser.add_argument("--seed", type=int, default=0, help="of weights, rows, task order and sampling (default: 0)")
    parser.add_argument("--reward", choices=("verifier", "coin"), default="verifier", help="coin: a control run")
    parser.add_argument(
        "--mode", choices=("record", "splice"), default="record", help="of the proxy; splice: one row a rollout"
    )
    parser.add_argument(
        "--harness", choices=WORDINGS, default="react", help="mini, pi: real programs, from `openforge harness install NAME`"
    )
    parser.add_argument("--steps", type=int, help="training steps (default: as in openforge.toml)")
    args, rest = parser.parse_known_args()
    base = cache_folder()
    try:
        command = run_command(prepare(base, args.seed, args.harness), base, args)
    except KeyboardInterrupt:
        _say(f"ended while preparing; nothing half-made is left in {base}")
        sys.exit(130)
    # The run takes this process's place, so that Ctrl-C and signals reach it directly.
    os.execv(sys.executable, [sys.executable, *command, *rest])


def run_command(prepared: Path, base: Path, args: argparse.Namespace) -> list[str]:
    """Arguments of the Python that runs the training."""
    settings = {
        "engine.model": prepared / "model",
        "trainer.warm_start.rows": prepared / "rows.parquet",
        "trainer.warm_start.cache": base,
        "run.seed": args.seed,
        "orchestrator.reward": args.reward,
        "proxy.mode": args.mode,
        "trainer.harness": args.harness,
        **(SLOW_START if args.harness != "react" else {}),
    }
    if args.steps is not None:
        settings["trainer.steps"] = args.steps
    sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    return ["-m", "services.cli", "run", str(CONFIG), *sets]


def cache_folder() -> Path:
    """Where the example keeps what it makes."""
    return Path(os.environ.get("OPENFORGE_CACHE") or "~/.cache/openforge").expanduser().absolute() / "lookup"


def prepare(base: Path, seed: int, harness: str = "react", rows: int = ROWS) -> Path:
    """The folder with ``model/`` and ``rows.parquet`` of seed and harness; made unless it is there, in one piece or not at all.

    Its name carries a digest of the recipe, so that a changed recipe never meets what an older one left.
    """
    target = base / f"{harness}-seed-{seed}-{recipe_digest(rows)}"
    if target.is_dir():
        return target
    base.mkdir(parents=True, exist_ok=True)
    _say(f"making the model and {rows} warm-start rows of seed {seed} for {harness}, once: {target}")
    with tempfile.TemporaryDirectory(prefix=".making-", dir=base) as scratch:
        made = Path(scratch) / "made"
        _make(made, seed, harness, rows)
        try:
            made.rename(target)
        except OSError:
            # Another demo was faster; what it made is the same.
            if not target.is_dir():
                raise
    return target


def recipe_digest(rows: int) -> str:
    """Names everything that model and rows depend on, but for seed and harness."""
    sources = [
        *(HERE / name for name in ("family.py", "words.py", "model.py", "rows.py")),
        *sorted((HERE / "tokenizer").iterdir()),
    ]
    digest = hashlib.sha256(f"{rows}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:12]


def _make(folder: Path, seed: int, harness: str, rows: int) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    _say("loading torch and transformers")
    from transformers import AutoTokenizer

    from examples.lookup.model import build
    from examples.lookup.rows import make_rows, write_rows

    _say("drawing the model's weights")
    build(folder / "model", seed)
    _say("drawing the rows")
    write_rows(folder / "rows.parquet", make_rows(AutoTokenizer.from_pretrained(folder / "model"), seed, rows, harness))


def _say(text: str) -> None:
    sys.stderr.write(f"demo: {text}\n")


if __name__ == "__main__":
    main()
