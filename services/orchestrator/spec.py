"""What a runner is told (spec.json) and what it tells back (status.json).

Plain dictionaries with types, because the runner is a script that reads them with the standard library alone.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Copy(TypedDict):
    """A tree to copy before a phase: from `source` into the folder `target`, without the top-level names in `skip`."""

    source: str
    target: str
    skip: list[str]


class Unpack(TypedDict):
    """A package to fetch from the proxy before a phase and to unpack into the folder `target`."""

    package: str
    target: str


class Cgroup(TypedDict):
    """A control group of the sandbox: a folder to make, and what to write into its files, in order."""

    folder: str
    settings: dict[str, str]


class Clock(TypedDict):
    """The time that programs see.

    Attributes:
        begins: what the attempt's first program sees when it starts, in seconds since 1970.
        library: that shows it; the environment or the command line has it loaded.
        folder: for the files that it shares with itself in other processes.
    """

    begins: float
    library: str
    folder: str


class Service(TypedDict):
    """A program that serves the phase's own one on 127.0.0.1: it answers before that one starts, and ends with it.

    Attributes:
        argv: absolute program and its arguments, sandbox included.
        env: its whole environment, but PORT.
        port: that it is to serve on, while that is free; 0 for any that is.
        wait_s: how long it may take to answer, less than a sandbox may take to stand.
    """

    argv: list[str]
    env: dict[str, str]
    port: int
    wait_s: float


class Phase(TypedDict):
    """One program that a runner runs.

    Attributes:
        name: its key in the status: `health`, `agent`, `verify`; `agent-2`, `verify-2`... of further steps of a task.
        user: that folders are given to: a number, or a name of the machine's, `:group` may follow; empty leaves them the
            runner's.
        drops: the runner starts the program as that user; else the program's own sandbox sees to it.
        fresh: folders to make anew; what was in them is removed. The user gets them with their content.
        own: trees that the user gets as they are.
        copies: trees to copy into them.
        packages: what to fetch and unpack into them.
        files: texts to write, by path.
        executable: files to make executable.
        argv: absolute program and its arguments, sandbox included.
        env: its whole environment.
        cwd: folder that it starts in; made if need be.
        network: `own` starts it in a network of its own, which reaches nothing; `shared` in the runner's.
        relay: where connections to 127.0.0.1:8080 of its network go: `tcp:host:port` or `unix:/path`, or `PROXY`; empty for
            nowhere.
        timeout_s: wall-clock limit in seconds.
        idle_s: limit in seconds of its time without a model call; 0 for none. Needs a relay.
        storage_mb: limit in MiB of what `fresh` and `own` hold together; 0 for none.
        tries: how often it is run until it exits with 0; what never does fails the attempt. 0: once, whatever its exit code.
        interval_s: between two tries.
        monitored: the program is a monitor around the sandbox, to be spared when the sandboxed are asked to end.
        log: file that gets what the program prints; empty for the runner's own output, after a line `--- name ---`.
        collect: small files to take over into the status afterwards.
        at_least: after a verification: what its rewards must be, by name, for the phases that follow; else the attempt is done.
        clock: that the program sees; else the real one.
        service: that runs beside it; the program finds its address as SERVICE_URL.
    """

    name: str
    user: str
    drops: bool
    fresh: list[str]
    own: list[str]
    copies: list[Copy]
    packages: list[Unpack]
    files: dict[str, str]
    executable: list[str]
    argv: list[str]
    env: dict[str, str]
    cwd: str
    network: Literal["own", "shared"]
    relay: str
    timeout_s: float
    idle_s: float
    storage_mb: int
    tries: int
    interval_s: float
    monitored: bool
    log: str
    collect: list[str]
    at_least: NotRequired[dict[str, float]]
    clock: NotRequired[Clock]
    service: NotRequired[Service]


class Spec(TypedDict):
    """One attempt.

    Attributes:
        status: path of the status file; empty inside a container, where the environment says it.
        deadline_s: after which the runner ends, whatever it is at; nobody else may be there to end it.
        log_bytes: of a program's output that are kept.
        lease_s: how long the proxy may be away before an agent is ended, since nobody waits for it any more; 0 for ever.
        grace_s: seconds between asking a program to end and killing it.
        cgroups: that the programs run in, made and removed by the runner.
        rlimits: limits of each of the programs' processes, by the names of `resource` without `RLIMIT_`.
        phases: in order; the next one runs unless the attempt was cancelled or failed.
        strategy: how the rewards of several verifications become one; told back in the status.
        leaves: files and folders to leave with the proxy after the last phase, where nobody can look into an ended sandbox.
    """

    status: str
    deadline_s: float
    log_bytes: int
    lease_s: float
    grace_s: float
    cgroups: list[Cgroup]
    rlimits: dict[str, int]
    phases: list[Phase]
    strategy: NotRequired[Strategy]
    leaves: NotRequired[list[str]]


Limit = Literal["wall", "idle", "storage"]
Strategy = Literal["mean", "final"]


class PhaseStatus(TypedDict):
    """How a phase went.

    Attributes:
        exit_code: negative: ended by that signal.
        timed_out: the runner ended it because of a limit.
        limit: which one.
        oom: a process of it was killed because memory ran out.
        seconds: by the wall clock.
        used: `cpu_s` of all its processes; `memory_mb` at the peak, of all together where there is a control group, else of
            the largest.
        collected: texts of files, by name.
        too_large: names of those files that were too large to be taken over.
    """

    exit_code: int | None
    timed_out: bool
    limit: Limit | None
    oom: bool
    seconds: float
    used: dict[str, float]
    collected: dict[str, str]
    too_large: list[str]


class Status(TypedDict):
    """State of an attempt; at most `STATUS_BYTES` of JSON (see `runner.report`).

    Attributes:
        pid: of the runner.
        phase: `prepare`, the name of the phase that runs, or one of `FINAL`.
        error: why the attempt failed, for a person, cut to some hundred characters.
        phases: results of the phases that ended, by name.
        strategy: as the spec has it.
        of_task: the attempt failed because of what its task or image is: the next one would too.
    """

    pid: int
    phase: str
    error: str | None
    phases: dict[str, PhaseStatus]
    strategy: NotRequired[Strategy]
    of_task: NotRequired[bool]


FINAL = frozenset({"done", "cancelled", "failed"})
"""Phases after which a runner ends."""

PROXY = "proxy"
"""As a relay's address in a container: where the runner got its work from."""


def phase_name(what: str, step: int) -> str:
    """Name of the phase `agent` or `verify` of a step, from 0."""
    return f"{what}-{step + 1}" if step else what


def is_of(what: str, name: str) -> bool:
    """Whether a phase is an `agent` or a `verify` of any step."""
    return name == what or name.startswith(f"{what}-")


def phase_of(spec: Spec, name: str) -> Phase:
    """The phase of that name, which the spec has."""
    return next(phase for phase in spec["phases"] if phase["name"] == name)


def joined(agent: Status, verifier: Status) -> Status:
    """The status of an attempt whose verifier had a sandbox of its own."""
    return {**verifier, "phases": agent["phases"] | verifier["phases"]}


def longest(spec: Spec) -> float:
    """Seconds that the phases may take together, by their limits."""
    return sum(max(phase["tries"], 1) * (phase["timeout_s"] + phase["interval_s"]) for phase in spec["phases"])
