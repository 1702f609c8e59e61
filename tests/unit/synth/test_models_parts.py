"""What models may write, what they are shown, and what is kept of them: the parts that need no endpoint."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.synth.models.answers import Answers, Paid
from services.synth.models.budget import Budget
from services.synth.models.calls import Answer, Call, Kept, Said
from services.synth.models.endpoint import unfenced
from services.synth.models.folder import listing, problem, write, write_toml
from services.synth.models.kinds import Built, File, Idea, Mended
from services.synth.models.prompts import Prompts
from services.synth.models.ready import check_models
from services.synth.models.schemas import schema_of
from services.synth.models.seeds import Seeds
from shared.config import BudgetConfig, Config, EndpointConfig, ModelsConfig, SynthConfig
from shared.errors import BudgetError, ConfigError, MakerError
from shared.task import load_task

GOOD = [File("tests/test.sh", "#!/bin/sh\necho 1\n"), File("solution/solve.sh", "#!/bin/sh\ntrue\n")]


def call(text: str = "hello", **changes: object) -> Call:
    said = (Said(role="user", text=text),)
    fields = {
        "model": "m",
        "api": "openai",
        "structured": "schema",
        "messages": said,
        "name": "N",
        "schema": {},
        "max_tokens": 9,
    }
    return Call(**fields | changes)  # type: ignore[arg-type]


def kept(text: str, run: str = "r", usd: float = 0.5) -> Kept:
    return Kept(call=call(text), answer=Answer(text="{}", end="done"), role="builder", run_id=run, usd=usd)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "leads out"), ("tests/../../x", "leads out"), ("task.toml", "is not in environment, tests, solution"),
        ("environment", "is not in"), ("tests//x", "is not written"), ("tests/a\\b", "is not written"), ("", "is not written"),
        ("tests/" + "a" * 200, "is too long"), ("tests/a/b/c/d/e/f/g/h", "is too long"), ("tests/a\nb", "is not written"),
        ("environment/base.py", "belongs to the environment base"),
    ],
)  # fmt: skip
def test_a_model_writes_only_where_files_of_a_task_lie(path: str, why: str) -> None:
    assert why in problem([*GOOD, File(path, "x")], ["environment/base.py"])


@given(
    st.lists(st.sampled_from(["tests", "environment", "..", ".", "", "~", "instruction.md", "a b", "\n"]), max_size=4).map(
        "/".join
    )
)
def test_no_path_that_is_let_through_leads_out_of_a_task(path: str) -> None:
    if not problem([File(path, "x")], (), ()):
        assert not Path(path).is_absolute()
        assert ".." not in Path(path).parts
        assert Path(path).parts[0] in ("environment", "tests", "solution", "instruction.md")


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (GOOD[:1], "solution/solve.sh is missing"),
        ([*GOOD, GOOD[0]], "tests/test.sh is there twice"),
        ([*GOOD, File("tests/test.sh/x", "")], "tests/test.sh is a file, and other files lie in it"),
        ([*GOOD, File("tests/big", "x" * 300_000)], "tests/big has 300000 bytes"),
        ([*GOOD, *(File(f"tests/{n}", "") for n in range(60))], "there are 62 files"),
        ([*GOOD, *(File(f"tests/{n}", "x" * 250_000) for n in range(9))], "bytes together"),
        ([*GOOD, File("tests/nul", "a\0b")], "tests/nul is no text"),
        ([GOOD[0], File("solution/solve.sh", " \n")], "solution/solve.sh is empty"),
    ],
)
def test_what_cannot_be_a_task_is_told(files: list[File], why: str) -> None:
    assert why in problem(files, ())


def test_what_a_model_wrote_becomes_a_task_whose_toml_is_ours(tmp_path: Path) -> None:
    assert problem(GOOD, ()) == ""
    write(tmp_path, [*GOOD, File("instruction.md", "Do it.")])
    write_toml(tmp_path, "claw/x", "fam", 500, {"metadata": {"serve": "exec x"}, "environment": {"cpus": 1}})
    task = load_task(tmp_path)
    assert task.steps[0].instruction == "Do it.\n"
    toml = tomllib.loads((tmp_path / "task.toml").read_text())
    assert toml["metadata"] == {"serve": "exec x", "family": "fam"}
    assert (toml["agent"]["timeout_sec"], toml["environment"]) == (1800.0, {"cpus": 1})
    assert (tmp_path / "tests/test.sh").stat().st_mode & 0o111
    write(tmp_path, [], ["tests/test.sh", "tests/never-was"])
    assert not (tmp_path / "tests/test.sh").exists()


def test_files_are_shown_as_far_as_they_fit_and_the_others_named(tmp_path: Path) -> None:
    write(tmp_path, [File("tests/a", "alpha"), File("tests/b", "b" * 100), File("tests/c", "gamma")])
    shown = listing(tmp_path, ["tests/c"], 50)
    assert "### tests/a\nalpha" in shown
    assert "### tests/b\n(101 bytes, not shown)" in shown
    assert "gamma" not in shown


def test_prompts_are_filled_strictly_and_values_are_never_taken_for_places(tmp_path: Path) -> None:
    own = Prompts()
    assert len(own.digests("propose", "build", "refine", "keep")) == 4
    (tmp_path / "keep.md").write_text("Judge {{conversation}} by $HOME and {x}")
    prompts = Prompts(str(tmp_path))
    assert prompts.fill("keep", {"conversation": "{{nothing}}"}) == "Judge {{nothing}} by $HOME and {x}"
    assert prompts.digests("keep") != own.digests("keep")
    assert prompts.digests("build") == own.digests("build")
    with pytest.raises(ConfigError, match=r"a place \{\{conversation\}\} that nothing is known for; there are: other"):
        prompts.fill("keep", {"other": ""})
    (tmp_path / "biuld.md").write_text("")
    with pytest.raises(ConfigError, match=r"biuld\.md is no prompt of ours; there are: build-in-sandbox\.md"):
        Prompts(str(tmp_path))


def test_schemas_are_closed_and_know_no_defaults() -> None:
    for kind in (Built, Idea, Mended):
        name, schema = schema_of(kind)
        assert name == kind.__name__
        for part in (schema, *schema.get("$defs", {}).values()):
            assert part["additionalProperties"] is False
            assert sorted(part["required"]) == sorted(part["properties"])
    with pytest.raises(TypeError, match="no fields with defaults"):
        schema_of(Kept)


def test_a_call_is_the_same_if_all_that_its_answer_depends_on_is() -> None:
    changes = ({"model": "n"}, {"max_tokens": 10}, {"temperature": 0.1}, {"schema": {"a": 1}}, {"structured": "tool"})
    keys = {call().key, call("other").key, *(call(**change).key for change in changes)}
    assert len(keys) == 2 + len(changes)
    assert call().key == call().key


def test_answers_are_whole_and_found_by_whom_paid_for_them(tmp_path: Path) -> None:
    answers = Answers(tmp_path)
    assert answers.read("ab" * 32) is None
    answers.write("ab" * 32, kept("one"))
    answers.write("cd" * 32, kept("two", run="other"))
    assert answers.read("ab" * 32) == kept("one")
    assert list(answers.paid("r")) == [Paid(run_id="r", usd=0.5)]
    next(tmp_path.rglob("ab*.json")).write_text("{")
    assert list(answers.paid("r")) == []
    with pytest.raises(MakerError, match="remove it, and the model is asked again"):
        answers.read("ab" * 32)


async def test_a_call_waits_if_only_what_others_hold_stands_in_its_way() -> None:
    budget, order = Budget(1.0, 0), []

    async def spend(name: str, most: float, usd: float) -> None:
        async with budget.hold(most) as bill:
            await asyncio.sleep(0.01)
            bill.pay(usd)
            order.append(name)

    await asyncio.gather(spend("first", 0.9, 0.1), spend("second", 0.8, 0.2))
    assert (order, round(budget.usd, 6), budget.calls) == (["first", "second"], 0.3, 2)
    with pytest.raises(BudgetError, match=r"\$0\.3000 of \$1\.00 are spent; raise synth\.budget\.max_usd"):
        await spend("third", 0.8, 0.1)


async def test_a_call_that_was_not_answered_costs_nothing() -> None:
    budget = Budget(1.0, 1)
    with pytest.raises(OSError, match="gone"):
        async with budget.hold(1.0):
            raise OSError("gone")
    async with budget.hold(1.0) as bill:
        bill.pay(1.0)
    with pytest.raises(BudgetError, match="1 model calls are made, as many as may be"):
        async with budget.hold(0.0):
            pass


@pytest.mark.parametrize(("said", "meant"), [("{}", "{}"), ("```json\n{}\n```\n", "{}"), ("a ```\n{}\n```", "a ```\n{}\n```")])
def test_a_fence_is_taken_off_only_where_it_is_around_all(said: str, meant: str) -> None:
    assert unfenced(said) == meant


def test_scenarios_documents_tasks_and_repositories_are_told_apart(tmp_path: Path) -> None:
    scenarios = tmp_path / "ideas.txt"
    scenarios.write_text("# mine\n\na shop\na school\n")
    documents = tmp_path / "docs"
    documents.mkdir()
    (documents / "rules.md").write_text("No smoking.\n")
    task = tmp_path / "tasks" / "sum"
    write(task, [*GOOD, File("instruction.md", "Add it up.")])
    write_toml(task, "x/sum", "sum", 1, {})
    repository = tmp_path / "repo"
    for name, text in (("src/main.py", "print(1)\n"), ("README.md", "hello\n"), ("node_modules/x.js", "no\n")):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    (repository / "picture").write_bytes(b"\xff\xfe\x00")
    found = {path: [Seeds(ModelsConfig(seeds=str(path)), 0).of(n) for n in (0, 1, 2)] for path in
             (scenarios, documents, task.parent, task, repository)}  # fmt: skip
    assert [(s.kind, s.name, s.text) for s in found[scenarios]] == [
        ("scenario", "ideas-0", "a shop"), ("scenario", "ideas-1", "a school"), ("scenario", "ideas-0", "a shop"),
    ]  # fmt: skip
    assert (found[documents][0].kind, found[documents][1].name) == ("document", "rules")
    assert found[task.parent] == found[task]
    assert found[task][0].kind == "task"
    assert "Add it up." in found[task][0].text
    drawn = found[repository][0]
    assert (drawn.kind, "print(1)" in drawn.text, "hello" in drawn.text, "node_modules" in drawn.text) == (
        "repository", True, True, False,
    )  # fmt: skip
    assert Seeds(ModelsConfig(seeds=str(repository)), 0).of(0) == drawn
    assert drawn.source.startswith("repository repo sha256:")
    assert Seeds(ModelsConfig(), 0).of(3).source == ""


def test_of_a_repository_no_more_is_drawn_than_fits_and_each_proposal_sees_other_files(tmp_path: Path) -> None:
    for n in range(30):
        (tmp_path / f"f{n}.py").write_text(f"number = {n}\n" * 40)
    seeds = Seeds(ModelsConfig(seeds=str(tmp_path), kind="repository", seed_tokens=500), 7)
    texts = [seeds.of(n).text for n in range(3)]
    assert all(len(text.encode()) <= 500 * 4 + 200 for text in texts)
    assert len(set(texts)) == 3


@pytest.mark.parametrize("kind", ["scenarios", "documents", "tasks", "repository"])
def test_seeds_that_are_not_there_are_told(tmp_path: Path, kind: str) -> None:
    (tmp_path / "empty").mkdir()
    path = tmp_path / "none.txt" if kind == "scenarios" else tmp_path / "empty"
    if kind == "scenarios":
        path.write_text("# nothing\n")
    with pytest.raises(ConfigError, match=f"there are no {kind} in"):
        Seeds(ModelsConfig(seeds=str(path), kind=kind), 0)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is not there"):
        Seeds(ModelsConfig(seeds=str(tmp_path / "away")), 0)


def test_the_sdks_are_loaded_only_when_a_model_is_asked() -> None:
    code = "import sys; import services.synth.models.client; sys.exit('openai' in sys.modules or 'anthropic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_models_without_a_key_or_without_a_price_are_told_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("THE_KEY", raising=False)
    builder = EndpointConfig(model="m-1", key_env="THE_KEY")
    config = Config(synth=SynthConfig(generator="models", models=ModelsConfig(builder=builder)))
    with pytest.raises(ConfigError, match="set the environment variable THE_KEY"):
        check_models(config)
    monkeypatch.setenv("THE_KEY", "sk")
    check_models(config)
    limited = msgspec.structs.replace(config.synth, budget=BudgetConfig(max_usd=1.0))
    with pytest.raises(ConfigError, match="nobody knows what m-1 costs"):
        check_models(Config(synth=limited))
    check_models(Config(synth=msgspec.structs.replace(limited, generator="families")))
