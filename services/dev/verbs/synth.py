"""The verbs of `openforge synth`. Each imports what it needs inside, so that --help answers at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from services.dev.options import AsJson, Root, Sets, failing, finish
from services.dev.verbs.default import RUN, WithDefault

app = typer.Typer(
    name="synth",
    cls=WithDefault,
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Make tasks that can be trusted: propose, build, try, mend; only what passes every gate is accepted.\n\n"
    "Example:\n\n"
    "  openforge synth synth.toml --dry-run\n\n"
    "  openforge synth synth.toml\n\n"
    "  openforge synth status\n\n"
    "`openforge synth CONFIG` is short for `openforge synth run CONFIG`. docs/synth.md says what stands in the file.",
)
File = Annotated[Path, typer.Argument(metavar="CONFIG", help="A synth.toml: an openforge.toml with a section [synth].")]
Run = Annotated[str, typer.Argument(metavar="[RUN]", help="Run id; default: the newest that made tasks.")]
InRun = Annotated[str, typer.Option("--run", help="Run id; default: the newest that made tasks.")]


@app.command(RUN)
def run(
    file: File,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would cost at most, and start nothing.")] = False,
    sets: Sets = None,
) -> None:
    """Make tasks: start a stack, have synth.count proposals built and tried, print what became of them.

    Accepted tasks are put into synth.to. Exit status 1 if some wait because a limit of cost was reached, 130 after Ctrl-C; both
    say how to go on.

    Example: openforge synth run synth.toml --set synth.count=20 --set synth.to=tasks/made
    """
    from shared.config import resolve

    with failing():
        config = resolve(file, sets or []).config
    if dry_run:
        from services.dev.synth.estimate import lines
        from services.dev.synth.run import check_synth

        with failing():
            check_synth(config)
        typer.echo("\n".join(lines(config)))
        return
    from services.dev.synth.run import synthesise

    finish(synthesise(config))


@app.command()
def resume(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id: the name of its folder.")],
    sets: Sets = None,
    root: Root = Path("runs"),
) -> None:
    """Go on with a run that was stopped, killed, or ran out of what it might spend; no trial that had ended is made again.

    Example: openforge synth resume 20261130-091500-4f2a --set synth.budget.max_usd=20
    """
    from services.dev.resume import read_settings
    from services.dev.synth.run import synthesise

    with failing():
        config = read_settings(root, run_id, sets or [])
    finish(synthesise(config))


@app.command()
def status(run_id: Run = "", as_json: AsJson = False, root: Root = Path("runs")) -> None:
    """Say what has become of a run's tasks: how many got how far, why others did not, what it cost. It may be under way.

    Example: openforge synth status
    """
    import msgspec
    from rich.console import Console

    from services.dev.synth.look import find_run, is_left, look
    from services.dev.synth.run import go_on_with
    from services.dev.synth.show import render
    from services.synth.books import Books

    with failing():
        config = find_run(root, run_id)
    found = look(config)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
    else:
        Console(highlight=False).print(render(found, str(Books(config).accepted)), soft_wrap=True)
        if is_left(config, found):
            typer.echo(f"Nobody works on the others at present. {go_on_with(config.run)}")


@app.command()
def show(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Its id, its number, or the name of its folder.")],
    as_json: AsJson = False,
    run_id: InRun = "",
    root: Root = Path("runs"),
) -> None:
    """Show one task: where it comes from, what each gate said in each round, and why it was turned down.

    Example: openforge synth show n00007
    """
    from rich.console import Console

    from services.dev.synth.look import find_run, find_task, task_json
    from services.dev.synth.show import render_task
    from services.synth.books import Books

    with failing():
        books = Books(find_run(root, run_id))
        found = find_task(books, task)
    if as_json:
        typer.echo(task_json(books, found))
    else:
        Console(highlight=False).print(render_task(books, found), soft_wrap=True)


@app.command()
def report(
    run_id: Run = "",
    to: Annotated[Path | None, typer.Option("--to", help="Folder for the files; default: synth/ in the run folder.")] = None,
    root: Root = Path("runs"),
) -> None:
    """Write report.html, one page with pictures that needs nothing but itself, and report.json with all that is known.

    Example: openforge synth report --to .
    """
    from services.dev.synth.look import find_run
    from services.dev.synth.report import write_report

    with failing(OSError):
        files = write_report(find_run(root, run_id), to)
    typer.echo("\n".join(map(str, files)))


@app.command()
def sft(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="Run id of the teacher's rollouts on accepted tasks.")],
    judge: Annotated[
        Path | None, typer.Option("--judge", metavar="FILE", help="A file with [synth.models.judge]; default: the run's own.")
    ] = None,
    min_reward: Annotated[float, typer.Option("--min-reward", help="Smallest reward of a success.")] = 1.0,
    out: Annotated[Path | None, typer.Option("--out", help="Folder; default: exports/sft of the run folder.")] = None,
    redact: Annotated[bool, typer.Option("--redact", help="Replace secrets and personal paths by placeholders.")] = False,
    root: Root = Path("runs"),
) -> None:
    """Write what a teacher did well as chat rows for supervised training, for `openforge sft` and trainer.warm_start.

    Successes are kept; where [synth.models.judge] names a model, it is asked of each whether others should learn from it, and
    judged.json says why. What it answered once it is not asked again.

    The teacher's run is one of `openforge eval`, with the accepted tasks for tasks.heldout.

    Example: openforge synth sft 20261130-091500-4f2a --judge synth.toml
    """
    import msgspec

    from services.dev.archives import open_run
    from services.dev.synth.sft import write_rows
    from shared.config import resolve

    with failing():
        run = open_run(root, run_id)
        judging = resolve(judge).config if judge else run.config
        judging = msgspec.structs.replace(judging, run=run.config.run)
        code = write_rows(root, run_id, judging, out, min_reward, redact=redact)
    raise typer.Exit(code)
