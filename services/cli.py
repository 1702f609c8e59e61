"""`openforge`: verbs only. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.dev.options import ConfigFile, Root, Sets, fail, failing, finish
from services.dev.verbs import (
    deadletters,
    deployed,
    evaluation,
    harness,
    keys,
    looking,
    plot,
    runs,
    session,
    sft,
    synth,
    tasks,
    watching,
)

if TYPE_CHECKING:
    from shared.config import Config, ServiceName

app = typer.Typer(
    name="openforge",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train an agent with RL inside the very harness it will be deployed in.\n\n"
    "Start with `make demo` in a checkout; `openforge doctor` says what this machine lacks.",
)

app.add_typer(runs.app, name="runs")
app.add_typer(harness.app, name="harness")
app.add_typer(session.app, name="session")
app.add_typer(deadletters.app, name="deadletters")
app.add_typer(keys.app, name="keys")
app.add_typer(tasks.app, name="tasks")
app.add_typer(evaluation.app, name="eval")
app.add_typer(synth.app, name="synth")


@app.command()
def run(config: ConfigFile, sets: Sets = None) -> None:
    """Train: bring the whole stack up, carry the configured run to its end, print the summary.

    Example: openforge run my.toml --set trainer.steps=5
    """
    from services.dev.run import train

    finish(train(_config(config, sets)))


@app.command()
def resume(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id: the name of its folder.")],
    sets: Sets = None,
    root: Root = Path("runs"),
) -> None:
    """Go on with a training run that was stopped, killed or failed: from where it stands, with the settings it had.

    No group is trained on twice or left out. More steps train on; settings of the loss and the optimizer stay what they were.

    Example: openforge resume 20261130-091500-4f2a --set trainer.steps=50
    """
    from services.dev.resume import read_settings
    from services.dev.run import train

    with failing():
        config = read_settings(root, run_id, sets or [])
    finish(train(config))


@app.command()
def dev(config: ConfigFile, sets: Sets = None) -> None:
    """Keep the whole stack up until Ctrl-C: servers, engine, one process per service, restarted when they die.

    In another terminal, `openforge rollout my/task` and others then use it.

    Example: openforge dev my.toml
    """
    from services.dev.run import develop

    finish(develop(_config(config, sets)))


@app.command()
def serve(
    service: Annotated[str, typer.Argument(help="proxy, orchestrator, collector, trainer or synth.")],
    config: Annotated[Path, typer.Option("--config", help="An openforge.toml, or the config.json of a run folder.")],
    sets: Sets = None,
) -> None:
    """Run one service in this process until SIGTERM. `openforge dev` starts one of these per service; docker compose and
    Kubernetes do too, with run.id, bus.url and store.url set.

    Example: openforge serve collector --config openforge.toml --set run.id=r1 --set bus.url=nats://nats:4222
    """
    from services.app import SERVICES, main
    from services.dev.deployed.settings import deployed_config

    if service not in SERVICES:
        fail(f"unknown service {service!r}; there are: {', '.join(SERVICES)}")
    name: ServiceName = service
    with failing():
        main(name, deployed_config(config, sets or []))


@app.command()
def rollout(
    task_dir: Annotated[Path, typer.Argument(metavar="TASK_DIR", help="A Harbor-format task folder.")],
    harness: Annotated[str, typer.Option("--harness", help="One of `openforge harness list`.")] = "react",
    count: Annotated[int, typer.Option("-n", min=1, max=1000, help="How many rollouts.")] = 1,
    config: Annotated[Path | None, typer.Option("--config", help="Start a stack for this; default: the one that runs.")] = None,
    sets: Sets = None,
    root: Root = Path("runs"),
) -> None:
    """Run one task in a harness and show its calls and the verifier's reward.

    Example: openforge rollout examples/lookup/tasks/train/TASK --harness mini
    """
    from services.dev.rollout import Wish
    from services.dev.rollout import rollout as run_rollout

    finish(run_rollout(_config(config, sets) if config else None, root, Wish(task_dir, harness, count)))


@app.command()
def check(
    config: ConfigFile,
    sets: Sets = None,
    as_json: Annotated[bool, typer.Option("--json", help="The resolved configuration as JSON.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Look at the learner instead; needs no GPU.")] = False,
) -> None:
    """Show every setting with its value and where it came from, and whether a run could start with it.

    Example: openforge check examples/gpu/claw-30b.toml --dry-run --set engine.model=models/Qwen3-30B-A3B
    """
    from services.dev.check import print_check, print_dry_run
    from shared.config import resolve

    with failing():
        resolved = resolve(config, sets or [])
        code = print_dry_run(resolved) if dry_run else print_check(resolved, as_json)
    raise typer.Exit(code)


@app.command()
def doctor() -> None:
    """Look at this machine: processor, memory, disk, ports, missing parts, what each costs and what adds it."""
    from rich.console import Console

    from services.dev.doctor import report

    raise typer.Exit(report(Console()))


for verb in (*deployed.VERBS, *watching.VERBS, *looking.VERBS, sft.sft, plot.plot):
    app.command()(verb)


def main() -> None:
    """Entry point of the `openforge` command."""
    app()


def _config(file: Path, sets: list[str] | None) -> Config:
    from shared.config import resolve

    with failing():
        return resolve(file, sets or []).config


if __name__ == "__main__":
    main()
