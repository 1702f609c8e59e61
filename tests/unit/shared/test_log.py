"""What a line of the log says, and what it never does."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.app import secrets_of
from services.proxy.sessions import secret_of
from shared.config import Config, EngineConfig
from shared.errors import EngineError
from shared.log import HIDDEN, log_context, setup_logging


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    for handler in set(root.handlers) - set(before):
        handler.close()
    root.handlers[:], root.level = before, level


def test_a_line_has_what_a_collector_of_logs_looks_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    setup_logging(tmp_path / "logs" / "proxy.jsonl", "json")
    with log_context(run="run-1", service="proxy"), log_context(rollout="r1", call="7"):
        logging.getLogger("services.proxy").info("asked %s\nagain", "twice")
    [line] = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert entry.pop("at") > 0
    assert entry == {
        "level": "info", "logger": "services.proxy", "message": "asked twice\nagain",
        "run": "run-1", "service": "proxy", "rollout": "r1", "call": "7",
    }  # fmt: skip
    assert (tmp_path / "logs" / "proxy.jsonl").read_text() == line + "\n"


def test_an_exception_is_told_in_fields(capsys: pytest.CaptureFixture[str]) -> None:
    setup_logging(style="json")
    try:
        raise EngineError("no answer")
    except EngineError:
        logging.getLogger("x").exception("it failed")
    entry = json.loads(capsys.readouterr().err)
    assert entry["exception"] == {"type": "EngineError", "message": "no answer"}
    assert "test_log.py" in entry["traceback"]


def test_text_on_a_terminal_is_only_what_matters(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    setup_logging(tmp_path / "log.jsonl")
    logging.getLogger("x").info("all is well")
    logging.getLogger("x").warning("it is not")
    assert [line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()] == ["x WARNING it is not"]
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize("style", ["text", "json"])
def test_no_secret_is_logged(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, style: str
) -> None:
    monkeypatch.setenv("OPENFORGE_CONTROL_KEY", "known-key-1")
    monkeypatch.setenv("TEACHER", 'known\\key"2')
    session = secret_of("k", "run-1", "r1-a1")
    config = Config(engine=EngineConfig(key_env="TEACHER"))
    setup_logging(tmp_path / "log.jsonl", "json" if style == "json" else "text", secrets_of(config))
    try:
        raise EngineError("refused: Authorization: Bearer abc.def-ghi")
    except EngineError:
        logging.getLogger("x").exception(
            "%s %s at /run/%s/v1 with redis://user:pa55word@host:1", "known-key-1", 'known\\key"2', session
        )
    for text in (capsys.readouterr().err, (tmp_path / "log.jsonl").read_text()):
        for secret in ("known-key-1", 'key"2', 'key\\"2', session, "abc.def-ghi", "pa55word"):
            assert secret not in text
        assert f"/run/{HIDDEN}/v1" in text
        assert f"redis://user:{HIDDEN}@host:1" in text
