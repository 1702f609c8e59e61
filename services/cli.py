"""`openforge`: verbs only. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.dev import looking
from services.dev.options import ConfigFile, Root, Sets, fail, failing, finish
from services.dev.tasks import verbs as tasks

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

harness_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="The programs that rollouts can be run in.")
app.add_typer(harness_app, name="harness")
session_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Record a harness that a runner of your own launches, on a stack that runs (`openforge dev CONFIG`).\n\n"
    "Example:\n\n"
    '  eval "$(openforge session create --task fix-bug --harness claude)"\n\n'
    '  claude -p "Fix the bug"\n\n'
    '  openforge session reward "$OPENFORGE_SESSION" 1.0\n\n'
    '  openforge session end "$OPENFORGE_SESSION"\n\n'
    "The variables reach programs that speak OpenAI's, Anthropic's or Gemini's API; the model name is free. Sessions of one "
    "--group are a GRPO group once --group-size of them have ended; one that is alone is scored as evaluation.",
)
app.add_typer(session_app, name="session")
letters_app = typer.Typer(rich_markup_mode=None)
app.add_typer(letters_app, name="deadletters")
app.add_typer(tasks.app, name="tasks")

HarnessDir = Annotated[str, typer.Option("--dir", help="Folder with adapters of your own.")]
RunId = Annotated[str, typer.Option("--run", help="Run id; default: the newest that runs.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="$OPENFORGE_SESSION of `session create`.")]
LetterIds = Annotated[list[int] | None, typer.Argument(metavar="ID...", help="As `openforge deadletters` lists them.")]


@app.command()
def run(config: ConfigFile, sets: Sets = None) -> None:
    """Train: bring the whole stack up, carry the configured run to its end, print the summary.

    Example: openforge run my.toml --set trainer.steps=5
    """
    from services.dev.run import train

    finish(train(_config(config, sets)))


@app.command()
def dev(config: ConfigFile, sets: Sets = None) -> None:
    """Keep the whole stack up until Ctrl-C: servers, engine, one process per service, restarted when they die.

    Example: openforge dev my.toml, then in another terminal: openforge rollout my/task
    """
    from services.dev.run import develop

    finish(develop(_config(config, sets)))


@app.command()
def serve(
    service: Annotated[str, typer.Argument(help="proxy, orchestrator, collector, trainer or synth.")],
    config: Annotated[Path, typer.Option("--config", help="The resolved config.json of a run folder.")],
) -> None:
    """Run one service in this process until SIGTERM. `openforge dev` starts one of these per service."""
    from services.app import SERVICES, main
    from shared.config import load_config

    if service not in SERVICES:
        fail(f"unknown service {service!r}; there are: {', '.join(SERVICES)}")
    name: ServiceName = service
    with failing():
        main(name, load_config(config))


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
def tap(
    pattern: Annotated[
        str, typer.Argument(metavar="[PATTERN]", help="`call`, `rollout.finished`, `evt.group.*` or a subject.")
    ] = "",
    run_id: RunId = "",
    rollout_id: Annotated[str, typer.Option("--rollout", help="Only this rollout.")] = "",
    json_lines: Annotated[bool, typer.Option("--json", help="One JSON object a line, for jq.")] = False,
    root: Root = Path("runs"),
) -> None:
    """Print the live events of a stack that runs, until Ctrl-C.

    Example: openforge tap call --json | jq .completion
    """
    from services.dev.tap import tap as run_tap

    finish(run_tap(root, run_id, pattern, rollout_id, json_lines))


@app.command()
def check(
    config: ConfigFile,
    sets: Sets = None,
    as_json: Annotated[bool, typer.Option("--json", help="The resolved configuration as JSON.")] = False,
) -> None:
    """Show every setting with its value and where it came from, and whether a run could start with it."""
    from services.dev.check import print_check
    from shared.config import resolve

    with failing():
        code = print_check(resolve(config, sets or []), as_json)
    raise typer.Exit(code)


@app.command()
def doctor() -> None:
    """Look at this machine: processor, memory, disk, ports, missing parts, what each costs and what adds it."""
    from rich.console import Console

    from services.dev.doctor import report

    raise typer.Exit(report(Console()))


for verb in looking.VERBS:
    app.command()(verb)


@harness_app.command("install")
def harness_install(names: Annotated[list[str], typer.Argument(metavar="NAME...")], folder: HarnessDir = "") -> None:
    """Install programs, pinned, each in a folder of its own under $OPENFORGE_CACHE (~/.cache/openforge).

    Example: openforge harness install codex pi
    """
    from services.dev.harness import install_harnesses

    with failing(OSError):
        install_harnesses(names, folder)


@harness_app.command("list")
def harness_list(folder: HarnessDir = "") -> None:
    """List the programs that there are adapters for, and which of them are installed."""
    from rich.console import Console

    from services.dev.harness import list_harnesses

    with failing():
        list_harnesses(folder, Console())


@harness_app.command("image")
def harness_image(
    name: Annotated[str, typer.Argument(metavar="NAME")],
    show: Annotated[bool, typer.Option("--print", help="Print the Dockerfile and build nothing.")] = False,
    host: Annotated[str, typer.Option("--host", help="Docker engine; default: $DOCKER_HOST, else the usual socket.")] = "",
    folder: HarnessDir = "",
) -> None:
    """Build the image that brings a harness, and the runner, into containers and pods. Prints its name.

    Containers get it by themselves; for Kubernetes push it to a registry that your nodes pull from.

    Example: openforge harness image qwen
    """
    from services.dev.harness_image import build_harness_image, print_dockerfile

    with failing(OSError):
        if show:
            print_dockerfile(name, folder)
        else:
            build_harness_image(name, folder, host)


@session_app.command("create")
def session_create(
    task: Annotated[str, typer.Option("--task", help="Name of the task.")],
    harness: Annotated[str, typer.Option("--harness", help="Name of the harness; the role rules of an adapter of it apply.")],
    group: Annotated[str, typer.Option("--group", help="Id of the group; default: a new one.")] = "",
    group_size: Annotated[int, typer.Option("--group-size", min=1, help="Rollouts in the group.")] = 1,
    rollout_id: Annotated[str, typer.Option("--rollout", help="Id of the rollout; makes a repeated create harmless.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of `export` lines.")] = False,
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Create a session and print the environment of its harness.

    Example: eval "$(openforge session create --task fix-bug --harness claude --group g1 --group-size 4)"
    """
    from services.dev.session import create
    from services.proxy.own_bodies import Wanted

    wanted = Wanted(rollout_id=rollout_id, group_id=group, group_size=group_size, task=task, harness=harness)
    finish(create(root, run_id, wanted, as_json=as_json))


@session_app.command("reward", context_settings={"ignore_unknown_options": True})
def session_reward(
    session_id: SessionId,
    value: Annotated[float, typer.Argument(metavar="REWARD", help="A finite number; it may be set again until the end.")],
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Set the reward of a session.

    Example: openforge session reward "$OPENFORGE_SESSION" 1.0
    """
    from services.dev.session import reward

    finish(reward(root, run_id, session_id, value))


@session_app.command("end")
def session_end(session_id: SessionId, run_id: RunId = "", root: Root = Path("runs")) -> None:
    """End a session: no further calls are taken, and its rollout counts in its group, with its reward or as failed.

    Example: openforge session end "$OPENFORGE_SESSION"
    """
    from services.dev.session import end

    finish(end(root, run_id, session_id))


@letters_app.callback(invoke_without_command=True)
def deadletters(
    context: typer.Context,
    run_id: RunId = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, for jq.")] = False,
    root: Root = Path("runs"),
) -> None:
    """List the messages that no service could handle, or show, replay or drop some of them, on a stack that runs.

    Example: openforge deadletters --json | jq .reason
    """
    from services.dev.deadletters import list_letters

    if context.invoked_subcommand is None:
        finish(list_letters(root, run_id, as_json=as_json))
    if run_id or as_json or root != Path("runs"):
        fail(f"options stand behind the word `{context.invoked_subcommand}`")


@letters_app.command("show")
def deadletters_show(
    number: Annotated[int, typer.Argument(metavar="ID", help="As `openforge deadletters` lists it.")],
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Print a dead letter with its body."""
    from services.dev.deadletters import show

    finish(show(root, run_id, number))


@letters_app.command("replay")
def deadletters_replay(
    numbers: LetterIds = None,
    every: Annotated[bool, typer.Option("--all", help="All of the run.")] = False,
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Publish dead letters again, once what kept them from being handled is mended, and take them out of the list.

    Example: openforge deadletters replay 3 7
    """
    from services.dev.deadletters import replay

    finish(replay(root, run_id, numbers or [], every=every))


@letters_app.command("drop")
def deadletters_drop(
    numbers: Annotated[list[int], typer.Argument(metavar="ID...", help="As `openforge deadletters` lists them.")],
    run_id: RunId = "",
    root: Root = Path("runs"),
) -> None:
    """Delete dead letters."""
    from services.dev.deadletters import drop

    finish(drop(root, run_id, numbers))


def main() -> None:
    """Entry point of the `openforge` command."""
    app()


def _config(file: Path, sets: list[str] | None) -> Config:
    from shared.config import resolve

    with failing():
        return resolve(file, sets or []).config


if __name__ == "__main__":
    main()
