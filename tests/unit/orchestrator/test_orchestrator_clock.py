"""The time that programs of a sandbox see."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

import pytest

from services.orchestrator import clock
from services.orchestrator.runner import clock as inside
from shared.clock import unix
from shared.config import resolve
from shared.errors import ConfigError
from shared.events import RolloutFinished
from tests.unit.orchestrator.house import House, MakeTask, commands, start

LIBRARY = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), "")
BEGINS = "2024-02-29T23:59:00Z"
SAY = """
date -u +%FT%T.%3N >> said.txt; sleep 1
/usr/bin/python3 -c 'import datetime; print(datetime.datetime.now(datetime.UTC).isoformat())' >> said.txt
{node}
git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log -1 --format=%aI >> said.txt
"""
KEEP = """
cp said.txt "$LOGS_DIR/artifacts/"
date -u +%FT%T.%3N >> "$LOGS_DIR/artifacts/said.txt"
echo 1 > "$LOGS_DIR/verifier/reward.txt"
"""


@pytest.fixture
def library() -> str:
    if not LIBRARY and os.environ.get("CI") == "true":
        pytest.fail("libfaketime is missing: apt-get install -y libfaketime")
    if not LIBRARY:
        pytest.skip("needs libfaketime")
    return LIBRARY


async def test_all_programs_of_a_sandbox_see_time_go_on_from_the_clock(house: House, make_task: MakeTask, library: str) -> None:
    node = "node -e 'console.log(new Date().toISOString())' >> said.txt;" if shutil.which("node", path="/usr/bin") else ""
    house.proxy.script = commands(SAY.format(node=node))
    async with house.orchestrator(clock=BEGINS, keep="all"):
        await house.publish(start(make_task(test=KEEP)))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    [said] = (house.root / "sandboxes").glob("*/r1-a1/logs/artifacts/said.txt")
    *times, committed, verified = said.read_text().split()
    assert len(times) == (3 if node else 2)
    seconds = [unix(time) - unix(BEGINS) for time in (*times, verified)]
    assert seconds == sorted(seconds), "time goes on, from the agent to its verifier"
    assert seconds[0] >= 0
    assert seconds[1] >= 1
    assert seconds[-1] < 60
    assert committed.startswith("2026-01-01T00:00:00"), "the date of commits is fixed anyhow"


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clock, "_OF_DEBIAN", f"{tmp_path}/*")
    clock._installed.cache_clear()
    try:
        with pytest.raises(ConfigError, match="apt-get install -y libfaketime"):
            clock._installed()
    finally:
        clock._installed.cache_clear()


def test_a_sandbox_whose_programs_do_not_see_it_is_said_to_be_unfit(library: str, tmp_path: Path) -> None:
    wanted, env = unix(BEGINS), {"PATH": "/usr/bin:/bin"}
    assert inside.Clock().apply(env, wanted, library) == ""
    (tmp_path / "broken.so").write_text("no library")
    assert "glibc" in inside.Clock().apply(env, wanted, str(tmp_path / "broken.so"))
    assert "there is no" in inside.Clock().apply(env, wanted, str(tmp_path / "none"))


def test_it_is_not_set_where_processes_of_others_could_end_those_of_an_agent() -> None:
    with pytest.raises(ConfigError, match="needs bubblewrap or containers"):
        clock.clock_of(BEGINS, "uid")


@pytest.mark.parametrize(
    ("text", "seconds"), [("1970-01-01T00:01:00", 60), ("1970-01-01T01:00:00+01:00", 0), ("1970-01-02", 86400)]
)
def test_iso_times_are_read_and_have_no_zone_but_their_own(text: str, seconds: float) -> None:
    assert unix(text) == seconds


@pytest.mark.parametrize("text", ["tomorrow", "1969-12-31T00:00:00Z", "12:00"])
def test_what_is_no_time_is_refused_when_the_configuration_is_read(text: str) -> None:
    with pytest.raises(ConfigError, match=r"orchestrator.*(is no time|before 1970)"):
        resolve(None, [f"orchestrator.clock={text}"], env={})


async def test_a_command_sets_clock_and_variables_of_its_rollout_alone(house: House, make_task: MakeTask, library: str) -> None:
    said = 'echo "$(date -u +%Y) $PYTHONHASHSEED $COLOUR" > {file}'
    keep = said.format(file='"$LOGS_DIR/artifacts/verified.txt"') + '\necho 1 > "$LOGS_DIR/verifier/reward.txt"\n'
    house.proxy.script = commands(said.format(file='"$LOGS_DIR/artifacts/said.txt"'))
    async with house.orchestrator(keep="all"):
        env = {"PYTHONHASHSEED": "7", "COLOUR": "red"}
        await house.publish(start(make_task(test=keep), clock="2031-05-06T07:08:09Z", env=env))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    [folder] = (house.root / "sandboxes").glob("*/r1-a1/logs/artifacts")
    assert (folder / "said.txt").read_text() == (folder / "verified.txt").read_text() == "2031 7 red\n"


async def test_a_verifier_alone_can_be_shown_another_time_by_a_clock_by_which_it_can_sleep(
    house: House, make_task: MakeTask, library: str
) -> None:
    """Python's sleep fails where libfaketime 0.9.10 leaves the monotonic clock as it is."""
    keep = 'date -u +%Y > "$LOGS_DIR/artifacts/verified.txt"\n/usr/bin/python3 -c "import time; time.sleep(0.1)"\n'
    keep += 'echo $((1 - $?)) > "$LOGS_DIR/verifier/reward.txt"\n'
    house.proxy.script = commands('date -u +%Y > "$LOGS_DIR/artifacts/said.txt"')
    async with house.orchestrator(keep="all"):
        env = {"FAKETIME_DONT_FAKE_MONOTONIC": "0"}
        await house.publish(start(make_task(test=keep), clock="2001-05-06T07:08:09Z", clock_for="verifier", env=env))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    [folder] = (house.root / "sandboxes").glob("*/r1-a1/logs/artifacts")
    assert (folder / "verified.txt").read_text() == "2001\n"
    assert int((folder / "said.txt").read_text()) > 2020
    assert outcome.reward == 1
