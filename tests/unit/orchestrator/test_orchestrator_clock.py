"""The time that programs of a sandbox see."""

from __future__ import annotations

import ctypes
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
NODE = shutil.which("node", path="/usr/bin")
PAGES = "/usr/bin/python3 -m http.server --bind 127.0.0.1 $PORT"
PYTHON_WAITS = ("sleep", "event", "select", "asyncio", "program", "timeout", "limit", "condition")
NODE_WAITS = ("timer", "atomics", "worker")
WAITS = {
    "py": '''
import asyncio, ctypes, select, subprocess, threading, time

def condition():
    """As Java and C++ wait: by the clock that counts from the start of the machine."""
    c, cond, lock, kind = ctypes.CDLL(None), *(ctypes.create_string_buffer(64) for _ in range(3))
    c.pthread_condattr_init(kind), c.pthread_condattr_setclock(kind, time.CLOCK_MONOTONIC)
    c.pthread_cond_init(cond, kind), c.pthread_mutex_init(lock, None), c.pthread_mutex_lock(lock)
    until = time.monotonic() + 0.1
    c.pthread_cond_timedwait(cond, lock, (ctypes.c_long * 2)(int(until), int(until % 1 * 1e9)))

def limit():
    try:
        subprocess.run(["sleep", "60"], timeout=0.1)
    except subprocess.TimeoutExpired:
        pass

ways = {
    "sleep": lambda: time.sleep(0.1), "event": lambda: threading.Event().wait(0.1),
    "select": lambda: select.select([], [], [], 0.1), "asyncio": lambda: asyncio.run(asyncio.sleep(0.1)),
    "program": lambda: subprocess.run(["sleep", "0.1"]), "timeout": lambda: subprocess.run(["timeout", "0.1", "sleep", "60"]),
    "limit": limit, "condition": condition,
}
for name, way in ways.items():
    began = time.perf_counter()
    way()
    print(name, time.perf_counter() - began, flush=True)
''',
    "js": """
const { Worker } = require("worker_threads")
const cell = () => new Int32Array(new SharedArrayBuffer(4))
const ways = {
  timer: () => new Promise(done => setTimeout(done, 100)),
  atomics: async () => Atomics.wait(cell(), 0, 0, 100),
  worker: () => new Promise(done => new Worker("setTimeout(() => {}, 100)", { eval: true }).on("exit", done)),
}
async function main() {
  for (const [name, way] of Object.entries(ways)) {
    const began = performance.now()
    await way()
    console.log(name, (performance.now() - began) / 1000)
  }
}
main()
""",
}
"""Programs that wait a tenth of a second in each of some ways, and say how long that took by a clock that is not shown."""


@pytest.fixture
def library() -> str:
    if not LIBRARY and os.environ.get("CI") == "true":
        pytest.fail("libfaketime is missing: apt-get install -y libfaketime")
    if not LIBRARY:
        pytest.skip("needs libfaketime")
    return LIBRARY


async def test_all_programs_of_a_sandbox_see_time_go_on_from_the_clock(house: House, make_task: MakeTask, library: str) -> None:
    node = "node -e 'console.log(new Date().toISOString())' >> said.txt;" if NODE else ""
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
    wanted, env, folder = unix(BEGINS), {"PATH": "/usr/bin:/bin"}, str(tmp_path)
    assert inside.Clock().apply(env, wanted, library, folder) == ""
    (tmp_path / "broken.so").write_text("no library")
    assert "glibc" in inside.Clock().apply(env, wanted, str(tmp_path / "broken.so"), folder)
    assert "there is no" in inside.Clock().apply(env, wanted, str(tmp_path / "none"), folder)


def test_it_is_not_set_where_processes_of_others_could_end_those_of_an_agent() -> None:
    with pytest.raises(ConfigError, match="needs bubblewrap or containers"):
        clock.clock_of(BEGINS, "uid", "/nowhere")


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


async def test_a_verifier_alone_can_be_shown_another_time(house: House, make_task: MakeTask, library: str) -> None:
    keep = 'date -u +%Y > "$LOGS_DIR/artifacts/verified.txt"\necho 1 > "$LOGS_DIR/verifier/reward.txt"\n'
    house.proxy.script = commands('date -u +%Y > "$LOGS_DIR/artifacts/said.txt"')
    async with house.orchestrator(keep="all"):
        await house.publish(start(make_task(test=keep), clock="2001-05-06T07:08:09Z", clock_for="verifier"))
        await house.ear.outcome()
    [folder] = (house.root / "sandboxes").glob("*/r1-a1/logs/artifacts")
    assert (folder / "verified.txt").read_text() == "2001\n"
    assert int((folder / "said.txt").read_text()) > 2020


@pytest.mark.parametrize("shown", ["1999-12-31T23:59:59.250Z", "2045-05-06T07:08:09Z"])
async def test_programs_that_are_shown_another_time_sleep_and_wait_as_long_as_by_the_real_one(
    house: House, make_task: MakeTask, library: str, shown: str
) -> None:
    """Agent, verifier and what serves the agent: that one does not even start if Python cannot sleep."""
    serve = f"/usr/bin/python3 -c 'import time; time.sleep(0.1)' && exec {PAGES}"
    toml = f'[task]\nname = "demo/task"\n[metadata]\nserve = "{serve}"\n'
    wait = "date -u +%Y; /usr/bin/python3 {folder}/waits.py" + ("; node {folder}/waits.js" if NODE else "")
    said = '> "$LOGS_DIR/artifacts/{name}.txt" 2>&1'
    house.proxy.script = commands(f"( {wait} ) {said}".format(folder=".", name="agent"))
    test = f'( {wait} ) {said}; echo 1 > "$LOGS_DIR/verifier/reward.txt"'.format(folder='"$TESTS_DIR"', name="verifier")
    files = {f"{folder}/waits.{ending}": text for folder in ("environment", "tests") for ending, text in WAITS.items()}
    async with house.orchestrator(keep="all"):
        await house.publish(start(make_task(test=test, toml=toml, files=files), clock=shown))
        outcome = await house.ear.outcome()
    assert isinstance(outcome, RolloutFinished), outcome
    for name in ("agent", "verifier"):
        [said_by] = (house.root / "sandboxes").glob(f"*/r1-a1/logs/artifacts/{name}.txt")
        year, *waits = said_by.read_text().splitlines()
        assert year in ("2000", "1999", "2045")
        assert [line.split()[0] for line in waits] == [*PYTHON_WAITS, *(NODE_WAITS if NODE else ())], waits
        assert all(0.09 < float(line.split()[1]) < 10 for line in waits), waits


def test_the_semaphore_is_what_glibc_makes(library: str) -> None:
    glibc, name = ctypes.CDLL(None), f"openforge-test-{os.getpid()}"
    glibc.sem_open(f"/{name}".encode(), os.O_CREAT | os.O_EXCL, 0o600, 1 << 30)
    made = Path(f"/dev/shm/sem.{name}")
    try:
        assert made.read_bytes() == inside.shared(0)[0]
    finally:
        made.unlink()
