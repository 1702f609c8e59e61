"""The sections of task.toml, as schema 1.4 of the format has them. Times are in seconds, sizes in MiB."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0)]
Delay = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]
Whole = Annotated[int, Meta(ge=0)]
Text = Annotated[str, Meta(min_length=1)]
NetworkMode = Literal["public", "no-network", "allowlist"]
User = str | int | None
"""Name or number; None leaves it to the sandbox."""


class _Section(msgspec.Struct, frozen=True, kw_only=True):
    pass


class Healthcheck(_Section, frozen=True, kw_only=True):
    """[environment.healthcheck]: a shell command that must succeed before the agent starts.

    Attributes:
        command: exit code 0 means well.
        interval_sec: between two tries.
        timeout_sec: of one try.
        start_period_sec: for so long failures do not count.
        start_interval_sec: between two tries in that time.
        retries: so many failures in a row are too many.
    """

    command: Text
    interval_sec: Delay = 5.0
    timeout_sec: Seconds = 30.0
    start_period_sec: Delay = 0.0
    start_interval_sec: Delay = 5.0
    retries: Count = 3


class Network(_Section, frozen=True, kw_only=True):
    """What may be reached. `network_mode` None: nothing was said.

    Raises:
        ValueError: hosts without the mode that they belong to.
    """

    network_mode: NetworkMode | None = None
    allowed_hosts: list[str] | None = None

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        if self.allowed_hosts and self.network_mode != "allowlist":
            raise ValueError('allowed_hosts goes with network_mode = "allowlist" only')


class McpServer(_Section, frozen=True, kw_only=True):
    """[[environment.mcp_servers]]: tools for the agent, by `url` or, with the transport `stdio`, by `command`."""

    name: str
    transport: Literal["sse", "streamable-http", "http", "stdio"] = "sse"
    url: str | None = None
    command: str | None = None
    args: list[str] = []
    headers: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        needed = "command" if self.transport == "stdio" else "url"
        if not getattr(self, needed):
            raise ValueError(f"the MCP server {self.name!r} with the transport {self.transport!r} needs a {needed}")


class Tpu(_Section, frozen=True, kw_only=True):
    """[environment.tpu]: a slice of accelerators."""

    type: str
    topology: str


class Environment(Network, frozen=True, kw_only=True):
    """[environment]: where agent and verifier run.

    Attributes:
        build_timeout_sec: of the image.
        docker_image: to take instead of building one from environment/Dockerfile.
        cpus, memory_mb, storage_mb: what a sandbox may use; None leaves it to the configuration.
        gpus, gpu_types, tpu: accelerators.
        env: of agent and verifier; may name variables of the host.
        workdir: absolute; None takes the Dockerfile's.
        skills_dir: folder of the image with skills for the agent.
        healthcheck: what must succeed first.
        mcp_servers: tools for the agent.
    """

    build_timeout_sec: Seconds = 600.0
    docker_image: str | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: Annotated[float, Meta(gt=0)] | None = None
    memory_mb: Count | None = None
    storage_mb: Count | None = None
    gpus: Whole | None = None
    gpu_types: list[str] | None = None
    tpu: Tpu | None = None
    env: dict[str, str] = {}
    workdir: str | None = None
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    mcp_servers: list[McpServer] = []

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        Network.__post_init__(self)
        if self.workdir is not None and not PurePosixPath(self.workdir).is_absolute():
            raise ValueError(f"workdir {self.workdir!r} must be an absolute path")


class Agent(Network, frozen=True, kw_only=True):
    """[agent]: wall-clock limit (None leaves it to the configuration), user, and a network of its own."""

    timeout_sec: Seconds | None = None
    user: User = None


class Collect(_Section, frozen=True, kw_only=True):
    """[[verifier.collect]]: a command that is run in a service after the agent ended."""

    command: Text
    service: str = "main"
    timeout_sec: Seconds = 60.0
    user: User = None


class Verifier(Network, frozen=True, kw_only=True):
    """[verifier]: wall-clock limit (None leaves it to the configuration), environment and user of tests/test.sh.

    Attributes:
        environment_mode: `shared` with the agent, or `separate`; None is `separate` if there is an `environment`.
        environment: of a separate verifier.
        collect: commands to run before.
    """

    timeout_sec: Seconds | None = None
    env: dict[str, str] = {}
    user: User = None
    environment_mode: Literal["shared", "separate"] | None = None
    environment: Environment | None = None
    collect: list[Collect] = []

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        Network.__post_init__(self)
        if self.environment_mode == "shared" and self.environment:
            raise ValueError('environment_mode = "shared" has no [verifier.environment]; leave one of them out')

    @property
    def separate(self) -> bool:
        """Whether it runs in an environment of its own."""
        return self.environment_mode == "separate" or self.environment is not None


class Solution(_Section, frozen=True, kw_only=True):
    """[solution]: environment of solution/solve.sh."""

    env: dict[str, str] = {}


class Artifact(_Section, frozen=True, kw_only=True):
    """Files that are of interest afterwards."""

    source: Text
    destination: str | None = None
    exclude: list[str] = []
    service: str | None = None

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        for path in (self.source, self.destination or ""):
            if ".." in PurePosixPath(path).parts:
                raise ValueError(f"artifact {path!r} must not have '..' in it")


class StepSection(_Section, frozen=True, kw_only=True):
    """[[steps]]: one part of a task, in the folder steps/<name>.

    `min_reward`: the steps after it are left out if its reward (or one of its rewards, by name) is less.
    """

    name: Annotated[str, Meta(min_length=1, max_length=255)]
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: list[Artifact] = []

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        if self.name in (".", "..") or "/" in self.name or "\0" in self.name:
            raise ValueError(f"steps: {self.name!r} cannot be the name of a folder")


class TaskFile(_Section, frozen=True, kw_only=True):
    """task.toml."""

    schema_version: str = "1.4"
    task: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    agent: Agent = Agent()
    verifier: Verifier = Verifier()
    environment: Environment = Environment()
    solution: Solution = Solution()
    source: str | None = None
    artifacts: list[Artifact] = []
    multi_step_reward_strategy: Literal["mean", "final"] | None = None
    steps: list[StepSection] = []

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        names = [step.name.casefold() for step in self.steps]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"steps: there are two of the name {twice!r}")
