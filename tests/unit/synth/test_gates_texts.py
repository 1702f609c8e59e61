"""What gates find by reading: schema, answers that lie about, copies."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.synth.gates import gates_of
from services.synth.gates.answers import Answers, literals, share
from services.synth.gates.copies import Contamination, Copies
from services.synth.gates.likeness import cosines, overlap, shared_row
from services.synth.gates.rubric import CRITERIA, Criterion, Review, Rubric
from services.synth.gates.schema import Schema
from services.synth.gates.texts import normal, text_of
from services.synth.models.prompts import Prompts
from shared.config import Config, OrchestratorConfig
from shared.task.pinning import loose
from tests.unit.synth.gatehouse import GOOD, Shelf, good, judged, shelf

few = settings(max_examples=40, deadline=None)
"""A loaded machine is no failure."""
LONG = (
    "Every mail in the inbox that asks for an invoice is to be answered with the number of that invoice, as it stands in the "
    "ledger, and then moved to the folder for what is done; count them, and write the count to done.txt."
)

REWORDED = (
    "Count them, and write the count to done.txt: all mails in the inbox asking for an invoice. Each is to be answered with "
    "that invoice's number, as the ledger has it, and then moved to the folder for done ones."
)


def test_the_gates_are_asked_in_this_order_and_copies_again() -> None:
    gates = gates_of(Config())
    assert [gate.name for gate in gates] == [
        "schema", "answers", "copies", "contamination", "build", "initial", "null", "oracle", "outputs", "repeats", "cheat",
        "rubric", "difficulty",
    ]  # fmt: skip
    assert [gate.name for gate in gates if gate.compares] == ["copies"]


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("task.toml", "[agent", "cannot-load"), ("task.toml", "[agent]\ntimeout = 3\n", "unknown-field"),
        ("environment/Dockerfile", "FROM a:1\nRUN pip install x\n", "unpinned"),
        ("environment/Dockerfile", "FROM a\n", "unpinned"),
        ("environment/Dockerfile", "FROM a:1\nCOPY tests /t\n", "tests-in-image"),
        ("environment/copy.sh", GOOD["solution/solve.sh"], "tests-in-environment"),
        ("tests/test.sh", "#!/bin/sh\npip install x==1\necho 1 > $LOGS_DIR/verifier/reward.txt\n", "fetches-in-verifier"),
        ("environment/key.pem", "-----BEGIN RSA PRIVATE KEY-----\n", "secret"),
    ],
)  # fmt: skip
async def test_what_is_a_warning_elsewhere_turns_a_new_task_down(path: str, text: str, reason: str, tmp_path: Path) -> None:
    gate = Schema(OrchestratorConfig())
    assert (await judged(gate, good(tmp_path / "good"))).outcome == "passed"
    verdict = await judged(gate, good(tmp_path / "task", **{path: text}))
    assert (verdict.outcome, verdict.reason) == ("failed", reason)


@pytest.mark.parametrize(
    ("name", "rest", "found"),
    [
        ("FROM", "python", 1), ("FROM", "python:3.11", 0), ("FROM", "a@sha256:00 AS b", 0), ("FROM", "--platform=x reg:5/a", 1),
        ("RUN", "pip install -r needs.txt", 0), ("RUN", "pip install -i http://x a==1", 0), ("RUN", "uv pip install a", 1),
        ("RUN", "npm install -g @a/b@1.2", 0), ("RUN", "npm install -g @a/b", 1), ("RUN", "npm ci", 0),
        ("RUN", "apt-get update && apt-get install -y --no-install-recommends a=1", 0), ("RUN", "apt-get -y install a b", 1),
        ("COPY", "pip install x", 0),
    ],
)  # fmt: skip
def test_what_has_no_version_is_named(name: str, rest: str, found: int) -> None:
    assert len(loose(name, rest)) == found


SOLVE = GOOD["solution/solve.sh"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("environment/notes.bak", "I did:\n" + "".join(f"   {line}\n" for line in SOLVE.splitlines())),
        ("environment/.cache/blob", base64.encodebytes(SOLVE.encode()).decode()),
        ("environment/expected_sum.txt", "the sum is forty-two\n"),
        ("environment/Dockerfile", "FROM a:1\nRUN echo forty-two > /x\n"),
    ],
)  # fmt: skip
async def test_an_answer_that_lies_about_is_found(path: str, text: str, tmp_path: Path) -> None:
    test = GOOD["tests/test.sh"].replace("= 42", '= "forty-two"')
    assert (await judged(Answers(), good(tmp_path / "good", **{"tests/test.sh": test}))).outcome == "passed"
    verdict = await judged(Answers(), good(tmp_path / "task", **{"tests/test.sh": test, path: text}))
    assert (verdict.outcome, verdict.reason) == ("failed", "answer-in-environment")
    assert path in verdict.detail


async def test_what_the_agent_has_to_find_is_no_answer_that_lies_about(tmp_path: Path) -> None:
    """A table with the line that is asked for is what the task is about, and a state has most of what it had before."""
    expected = {f"key number {number}": number for number in range(9)}
    files = {
        "environment/data.json": json.dumps(expected, indent=1),
        "tests/expected.json": json.dumps(expected, indent=1) + "\n",
    }
    files |= {"environment/hen.txt": "- blue 41\n- gray 7\n", "tests/test.sh": '#!/bin/sh\n[ "$(cat pot.txt)" = "blue 41" ]\n'}
    assert (await judged(Answers(), good(tmp_path / "task", **files))).outcome == "passed"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[ "$(cat a)" = "blue 41" ]', {"blue 41"}), ('if [ "$(cat a)" = heron ]; then', {"heron"}), ("x == 'four'", {"four"}),
        ("grep -qx 'done it' a", {"done it"}), ('[ "$a" = "$b" ]', set()), ("r=1", set()),
    ],
)  # fmt: skip
def test_what_a_verifier_compares_with_is_read_from_shell_and_python(text: str, found: set[str]) -> None:
    assert literals(text) == found


@few
@given(st.lists(st.text("abcdefgh", min_size=12, max_size=20), min_size=1, unique=True))
def test_all_lines_of_a_text_are_in_itself_however_indented_and_none_in_nothing(lines: list[str]) -> None:
    text = "\n".join(lines)
    assert share(text, "".join(f"  {line} \n" for line in reversed(lines))) == 1.0
    assert share(text, "") == 0.0


@few
@given(st.text())
def test_a_normal_text_is_its_own_normal_text(text: str) -> None:
    assert normal(normal(text)) == normal(text)


@few
@given(
    st.lists(st.sampled_from("abcdef"), min_size=3, max_size=30), st.lists(st.sampled_from("uvwxyz"), min_size=3, max_size=30)
)
def test_texts_are_wholly_like_themselves_and_alike_in_both_directions(one: list[str], other: list[str]) -> None:
    a, b = " ".join(one), " ".join(other)
    assert overlap(a, a) == 1.0
    assert overlap(a, b) == overlap(b, a)
    assert shared_row(a, b, 3) == ""


def test_a_long_row_of_words_is_found_whatever_stands_between_them() -> None:
    words = [f"w{number}" for number in range(20)]
    assert shared_row(" ".join(words), "so: " + ", ".join(words[3:16]) + " end", 13) == " ".join(words[3:16])
    assert shared_row(" ".join(words), " ".join(words[3:15]), 13) == ""


def test_what_says_the_same_is_near_and_what_says_something_else_is_not() -> None:
    near, far = cosines(LONG, [f"Please: {LONG}", "Find blue in hen.txt and write it to pot.txt"])
    assert near > 0.95
    assert far < 0.5


def pool_of(tmp_path: Path, **files: str) -> Shelf:
    return Shelf([shelf(good(tmp_path / "before", **files))])


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"task.toml": '[task]\nname = "demo/other-9"\n'}, "exact-copy"),
        ({"instruction.md": "Add up.\n"}, "same-data"),
        ({"tests/test.sh": "#!/bin/sh\necho 0 > reward.txt\n"}, "same-data"),
        ({"environment/numbers.txt": "1\n", "tests/test.sh": "#!/bin/sh\necho 0 > reward.txt\n"}, ""),
        ({"instruction.md": "Add up.\n", "tests/test.sh": "#!/bin/sh\necho 0 > reward.txt\n"}, ""),
    ],
)
async def test_of_one_family_a_copy_is_what_has_the_same_data(files: dict[str, str], reason: str, tmp_path: Path) -> None:
    verdict = await judged(Copies(Prompts()), good(tmp_path / "task", **files), pool=pool_of(tmp_path))
    assert verdict.reason == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"Please do this. {LONG}", "near-copy"),
        (REWORDED, "paraphrase"),
        ("Open the calendar, and decline all meetings of next Monday that last longer than an hour.", ""),
    ],
)  # fmt: skip
async def test_of_other_families_copies_are_known_by_their_words_and_by_what_they_say(
    text: str, reason: str, tmp_path: Path
) -> None:
    pool = pool_of(tmp_path, **{"instruction.md": LONG})
    files = {"instruction.md": text, "environment/numbers.txt": "5\n", "task.toml": '[metadata]\nfamily = "of-its-own"\n'}
    verdict = await judged(Copies(Prompts()), good(tmp_path / "task", **files), pool=pool)
    assert verdict.reason == reason
    assert not reason or LONG in verdict.detail


class Says:
    """A judge with one opinion."""

    def __init__(self, opinion: Any) -> None:
        self.opinion, self.asked = opinion, ""

    async def ask(self, text: str, kind: type[Any]) -> Any:
        """See `Judge.ask`."""
        self.asked = text
        return kind(**self.opinion)


@pytest.mark.parametrize(("same", "reason"), [(True, "paraphrase"), (False, ""), (None, "")])
async def test_between_the_two_limits_a_judge_decides_and_without_one_it_is_kept(
    same: bool | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.synth.gates.copies.cosines", lambda text, others: [0.85 for _ in others])
    judge = None if same is None else Says({"why": "both count", "same": same})
    files = {
        "instruction.md": "Quite another text.",
        "environment/numbers.txt": "5\n",
        "task.toml": '[metadata]\nfamily = "own"\n',
    }
    verdict = await judged(Copies(Prompts()), good(tmp_path / "task", **files), pool=pool_of(tmp_path), judge=judge)
    assert verdict.reason == reason
    assert judge is None or "Quite another text." in judge.asked


OWN = {"task.toml": '[metadata]\nfamily = "own"\n', "environment/numbers.txt": "5\n"}
LONGER = f"First read the manual. {LONG} Then rest."


@pytest.mark.parametrize(
    ("files", "how"),
    [(OWN | {"instruction.md": LONGER}, "long-row"), (OWN | {"instruction.md": REWORDED}, "paraphrase"), ({}, "exact-copy")],
)
async def test_nothing_of_the_evaluation_is_let_in(files: dict[str, str], how: str, tmp_path: Path) -> None:
    pool = Shelf(evaluation=[shelf(good(tmp_path / "held", **{"instruction.md": LONG}))])
    verdict = await judged(Contamination(), good(tmp_path / "task", **{"instruction.md": LONG, **files}), pool=pool)
    assert (verdict.reason, verdict.evidence["how"]) == ("contaminated", how)


async def test_a_family_that_is_evaluated_with_other_data_may_be_trained_on(tmp_path: Path) -> None:
    pool = Shelf(evaluation=[shelf(good(tmp_path / "held", **{"instruction.md": LONG}))])
    folder = good(tmp_path / "task", **{"instruction.md": LONGER, "environment/numbers.txt": "5\n"})
    assert (await judged(Contamination(), folder, pool=pool)).outcome == "passed"


async def test_what_is_like_a_task_of_the_pool_and_more_like_one_of_the_evaluation_is_contaminated(tmp_path: Path) -> None:
    pool = pool_of(tmp_path, **{"instruction.md": f"{LONG} Be quick about it, and say nothing to anybody else."})
    pool.evaluation = [shelf(good(tmp_path / "held", **{"instruction.md": LONG}))]
    folder = good(tmp_path / "task", **(OWN | {"instruction.md": f"Please: {LONG}"}))
    assert (await judged(Copies(Prompts()), folder, pool=pool)).outcome == "passed"
    assert (await judged(Contamination(), folder, pool=pool)).outcome == "failed"
    pool.evaluation = []
    assert (await judged(Copies(Prompts()), folder, pool=pool)).reason == "near-copy"


async def test_without_an_evaluation_set_contamination_cannot_be_looked_for(tmp_path: Path) -> None:
    assert (await judged(Contamination(), good(tmp_path / "task"))).outcome == "skipped"


def test_a_tasks_digest_does_not_change_with_its_name_but_with_all_that_it_consists_of(tmp_path: Path) -> None:
    own = text_of(good(tmp_path / "a"))
    assert text_of(good(tmp_path / "b", **{"task.toml": '[task]\nname = "x"\n'})).digest == own.digest
    changed = [{"instruction.md": "Else."}, {"environment/b": "b"}, {"tests/c": "c"}, {"solution/d": "d"}]
    digests = {text_of(good(tmp_path / f"c{number}", **files)).digest for number, files in enumerate(changed)}
    assert len(digests | {own.digest}) == 5


@pytest.mark.parametrize(
    ("wrong", "outcome", "reason"),
    [((), "passed", ""), (("typos",), "passed", ""), (("typos", "hardcoded_solution"), "failed", "hardcoded-solution")],
)
async def test_a_judge_goes_through_the_criteria_and_some_of_them_decide(
    wrong: tuple[str, ...], outcome: str, reason: str, tmp_path: Path
) -> None:
    said = [Criterion(name=name, why="so it is", holds=name not in wrong) for name in CRITERIA]
    judge = Says({"criteria": said})
    verdict = await judged(Rubric(Prompts()), good(tmp_path / "task"), judge=judge)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert all(text in judge.asked for text in GOOD.values())
    assert Review.__struct_fields__ == ("criteria",)


async def test_a_judge_that_leaves_criteria_out_and_one_that_is_not_there_decide_nothing(tmp_path: Path) -> None:
    folder = good(tmp_path / "task")
    assert (await judged(Rubric(Prompts()), folder)).outcome == "skipped"
    assert (await judged(Rubric(Prompts()), folder, judge=Says({"criteria": []}))).outcome == "skipped"


def test_the_prompt_names_every_criterion() -> None:
    text = Prompts().text("rubric")
    assert all(name in text for name in CRITERIA)
