"""The example's untrained model and warm-start rows, in a folder: ``python -m examples.lookup.prepare FOLDER [--seed N]``."""

from __future__ import annotations

import argparse
from pathlib import Path

from examples.lookup.demo import prepare


def main() -> None:
    """Command line. Doing it again costs nothing."""
    parser = argparse.ArgumentParser(description="Make model/ and rows.parquet of the look-up example.")
    parser.add_argument("folder", type=Path, help="a link to what is made beside it")
    parser.add_argument("--seed", type=int, default=0, help="of weights and rows (default: 0)")
    args = parser.parse_args()
    made = prepare(args.folder.parent, args.seed)
    link = args.folder.with_name(f".{args.folder.name}.link")
    link.unlink(missing_ok=True)
    link.symlink_to(made.name)
    link.replace(args.folder)


if __name__ == "__main__":
    main()
