"""Every command of the docs is one that there is, and says which test runs it, or that none does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.docs.commands import examples, verbs
from scripts.docs.site import on_page_markdown
from tests.unit.docs import shell
from tests.unit.docs.pages import REPO, Block, blocks, blocks_of, inline, pages, prose

RUN_HERE = "tests/unit/docs/test_docs_commands.py"
RUN_WHOLE = "tests/e2e/test_docs.py"
"""Reads the pages itself and runs their blocks as they are."""
LANGUAGES = {"bash", "console", "toml", "python", "json", "text", "yaml"}
HIDDEN = r"^ {4,}(?:openforge|make|docker|kubectl|python|pip|git) .*"
SHELL = [block for block in blocks() if block.language == "bash"]


def commands_of(block: Block) -> list[list[str]]:
    return list(shell.commands(block.text))


def is_left_out(block: Block, words: list[str]) -> bool:
    return any(" ".join(words).startswith(beginning) for beginning in block.left_out)


def test_every_block_says_what_it_is() -> None:
    assert [str(block) for block in blocks() if block.language not in LANGUAGES] == []


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_commands_are_such_as_there_are(block: Block) -> None:
    assert [f"{' '.join(words)}: {wrong}" for words in commands_of(block) if (wrong := shell.complaint(words))] == []


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_block_names_the_test_that_runs_it_or_says_that_none_does(block: Block) -> None:
    assert block.files or block.why_not, "put <!-- run by tests/... --> or <!-- not run: why --> before it"
    assert [file for file in block.files if not (REPO / file).is_file()] == []
    unused = [
        beginning for beginning in block.left_out if not any(is_left_out(block, [c]) for c in map(" ".join, commands_of(block)))
    ]
    assert unused == [], "no command begins so"


@pytest.mark.parametrize("block", [b for b in SHELL if b.files and not {RUN_HERE, RUN_WHOLE} & {*b.files}], ids=str)
def test_what_a_test_is_said_to_run_stands_in_it(block: Block) -> None:
    texts = "\n".join((REPO / file).read_text(encoding="utf-8") for file in block.files)
    for words in commands_of(block):
        if not is_left_out(block, words):
            missing = [word for word in shell.evidence(words) if not re.search(rf"[\"' ]{re.escape(word)}[\"' ]", texts)]
            assert missing == [], f"{' '.join(words)}: not in {', '.join(block.files)}"


@pytest.mark.parametrize("block", [b for b in SHELL if b.files == (RUN_HERE,)], ids=str)
def test_commands_that_cost_little_are_run(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of their own, with the checkout's examples in it."""
    (tmp_path / "examples").symlink_to(REPO / "examples")
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    for words in commands_of(block):
        if words[0] == "openforge" and not is_left_out(block, words):
            status, said = shell.run(words)
            assert status == 0, f"{' '.join(words)}: {said}"


def test_readers_see_what_runs_a_block() -> None:
    shown = "\n".join(on_page_markdown(text) for text in pages().values())
    assert shown.count('<p class="mark">') == sum(bool(b.files or b.why_not) for b in blocks())
    page = "<!-- run by a.py b.py; not run: make x -->\n```bash\nmake x\n```\n"
    assert on_page_markdown(page) == '```bash\nmake x\n```\n\n<p class="mark">Run by a.py, b.py. Not run: make x.</p>\n'


def test_blocks_that_are_run_whole_are_on_the_pages_that_are_read() -> None:
    text = (REPO / RUN_WHOLE).read_text(encoding="utf-8")
    assert [b.page for b in SHELL if RUN_WHOLE in b.files and f'"{b.page}"' not in text] == []
    assert [str(b) for b in SHELL if RUN_WHOLE in b.files and (b.files != (RUN_WHOLE,) or b.left_out)] == []


@pytest.mark.parametrize("page", pages())
def test_commands_within_lines_are_such_as_there_are(page: str) -> None:
    named = [code for code in inline(pages()[page]) if re.match(r"openforge [a-z]", code)]
    assert [wrong for code in named if (wrong := shell.mentioned(code))] == []
    made = [
        code
        for code in inline(pages()[page])
        if re.match(r"make [a-z]|python -m |docker compose |kubectl |scripts/\S+\.sh", code)
    ]
    assert [f"{code}: {wrong}" for code in made if (wrong := shell.complaint(list(next(shell.commands(code)))))] == []


def test_examples_of_verbs_are_such_as_there_are() -> None:
    lines = [(words, line) for words, verb in verbs() for line in examples(verb)]
    assert len(lines) > 30
    wrong = [f"{words}: {shell.complaint(c)}" for words, line in lines for c in shell.commands(line) if shell.complaint(c)]
    assert wrong == []


def test_commands_do_not_hide_in_blocks_without_a_fence() -> None:
    """Only the page that is made of the verbs has its examples indented."""
    hidden = [
        f"{page}: {line}"
        for page, text in pages().items()
        if page != "cli.md"
        for line in re.findall(HIDDEN, prose(text), re.M)
    ]
    assert hidden == []


@pytest.mark.parametrize("readme", ["README.md", "examples/browser/README.md", "examples/computer/README.md"])
def test_readmes_have_only_commands_that_there_are(readme: str) -> None:
    known = re.compile(r"^(openforge|make|python|eval) ", re.M)
    found = [b for b in blocks_of(readme, (REPO / readme).read_text(encoding="utf-8")) if known.search(b.text)]
    wrong = [f"{' '.join(w)}: {shell.complaint(w)}" for block in found for w in commands_of(block) if shell.complaint(w)]
    assert found
    assert wrong == []


@pytest.mark.parametrize(
    "line",
    [
        "openforge rnu CONFIG",
        "openforge run CONFIG --sets a=b",
        "openforge eval",
        "make tset",
        "make demo SEEED=1",
        "./no-such",
        "frobnicate",
    ],
)
def test_a_command_that_there_is_not_is_found(line: str) -> None:
    [words] = shell.commands(line)
    assert shell.complaint(words)


def test_commands_are_found_in_pipes_lists_and_substitutions() -> None:
    line = 'A=1 openforge tap call --json | jq .reason; eval "$(openforge session create --task T --harness H)" # and so on'
    assert list(shell.commands(line)) == [
        ["openforge", "tap", "call", "--json"],
        ["jq", ".reason"],
        ["openforge", "session", "create", "--task", "T", "--harness", "H"],
    ]
    assert list(shell.commands("kubectl exec openforge-0 -- openforge runs"))[1:] == [["openforge", "runs"]]
