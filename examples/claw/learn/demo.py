"""The example from nothing: ``python -m examples.claw.learn.demo [--seed N] [more]``.

Makes tasks, tokenizer, model and warm-start rows once per seed, in ``$OPENFORGE_CACHE``, then becomes ``openforge run``. What
it does not know is passed on, such as ``--set trainer.steps=4``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from examples import lookup
from examples.lookup.demo import cache_folder
from services.synth.domains.claw.draft import OFFICE

CONFIG = Path(__file__).with_name("openforge.toml")
RECIPE = (CONFIG.parent, Path(lookup.__file__).parent, OFFICE)
"""Folders of what tasks, model and rows depend on."""
ROWS = 9600  # steps x batch of the warm start: no row is seen twice


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description="Train the tiny agent of an office, from nothing to a held-out score.",
        epilog="Further options go to `openforge run`, such as --set trainer.steps=4.",
    )
    parser.add_argument("--seed", type=int, default=0, help="of weights, rows, task order and sampling (default: 0)")
    args, rest = parser.parse_known_args()
    made = made_once(cache_folder().with_name("claw-learn"), args.seed)
    settings = {
        "engine.model": made / "model", "trainer.warm_start.rows": made / "rows.parquet",
        "trainer.warm_start.cache": made.parent, "run.seed": args.seed, "tasks.train": made / "tasks" / "train",
        "tasks.heldout": made / "tasks" / "heldout",
    }  # fmt: skip
    sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    # The run takes this process's place, so that Ctrl-C and signals reach it directly.
    os.execv(sys.executable, [sys.executable, "-m", "services.cli", "run", str(CONFIG), *sets, *rest])


def made_once(base: Path, seed: int) -> Path:
    """The folder of a seed, made unless it is there, in one piece or not at all. Its name carries a digest of the recipe."""
    recipe = [path for folder in RECIPE for path in sorted(folder.glob("*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in recipe)).hexdigest()[:12]
    target = base / f"seed-{seed}-{digest}"
    if not target.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        sys.stderr.write(f"demo: making tasks, model and {ROWS} rows of seed {seed}, once: {target}\n")
        from examples.claw.learn.prepare import prepare

        with tempfile.TemporaryDirectory(prefix=".making-", dir=base) as scratch:
            prepare(Path(scratch, "made"), seed, ROWS)
            Path(scratch, "made").rename(target)
    return target


if __name__ == "__main__":
    main()
