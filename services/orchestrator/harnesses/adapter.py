"""The adapter file: what it may say, and how it is read.

    about = "what it is"
    api = "openai.chat"                     # the dialect that the program speaks
    argv = ["my-agent", "{instruction}"]    # found among what was installed; else on the sandbox's PATH, or absolute
    [install]
    kind = "npm"                            # or "pip", or "python"
    package = "my-agent"
    version = "1.2.3"
    [env]
    OPENAI_BASE_URL = "{base_url_v1}"
    [files]
    ".my-agent/config.json" = '{"model": "{model}"}'

Texts of argv, env and files may hold the placeholders `PLACEHOLDERS` and the names under [settings].
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from shared.errors import HarnessError
from shared.roles import RoleRule

PLACEHOLDERS = frozenset(
    {
        "base_url", "base_url_v1", "key", "model", "context_length", "compact_share_of_1m", "instruction", "home", "logs",
        "workdir",
    }
)  # fmt: skip
"""What a launch fills in: the fields of `Request`; `base_url_v1` is `base_url` with `/v1`; `compact_share_of_1m` is 7/10 of
`context_length` over 2**20, for programs that take the latter for every model's context length."""

PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_Version = Annotated[str, Meta(pattern=r"^[0-9][0-9A-Za-z.+-]*$")]
_Package = Annotated[str, Meta(pattern=r"^[@A-Za-z0-9][A-Za-z0-9._/\[\],@-]*$")]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Npm(_Table, frozen=True, kw_only=True, tag_field="kind", tag="npm"):
    """[install]: a package of the npm registry, pinned; it runs on the Node that is installed beside it."""

    package: _Package
    version: _Version


class Pip(_Table, frozen=True, kw_only=True, tag_field="kind", tag="pip"):
    """[install]: a Python package, pinned, in an environment of its own.

    Attributes:
        python: oldest Python that it runs on, such as `3.11`.
        lock: requirements file beside the adapter with all that it needs, pinned; empty lets pip decide.
    """

    package: _Package
    version: _Version
    python: Annotated[str, Meta(pattern=r"^3\.[0-9]+$")] = "3.11"
    lock: str = ""


class Python(_Table, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """[install]: nothing but a Python, which sandboxes have anyway."""


class Setting(_Table, frozen=True, kw_only=True):
    """[settings.NAME]: a whole number or a text that a task may set in its [metadata].

    Attributes:
        default: what it is when the task does not set it; it says which of the two it is.
        minimum: smallest number, or fewest characters. With a default below it every task has to set it.
    """

    default: int | str
    minimum: int = 1


class Adapter(_Table, frozen=True, kw_only=True):
    """An adapter file.

    Attributes:
        about: what the program is, in a line.
        api: dialect that it speaks.
        argv: program and arguments.
        env: environment variables.
        files: texts to write into the home folder, by relative path.
        programs: files, or folders of Python files, to copy there as they are: path in the home folder -> path beside the
            adapter.
        settings: what a task may set.
        install: how the program is installed; None when the user sees to it.
        read_only: folders of the machine that the sandbox must show besides what was installed.
        debian: programs of the machine that it uses (names or absolute paths), and the Debian packages that have them.
        solution: it gets the task's solution, in the folder `solution` of the home folder and as /solution.
        untested: why it has not been run yet; empty once it has.
        roles: which of its calls are not its main conversation.
    """

    about: str
    api: Literal["openai.chat", "openai.responses", "anthropic.messages", "gemini"]
    argv: Annotated[list[str], Meta(min_length=1)]
    env: dict[str, str] = {}
    files: dict[str, str] = {}
    programs: dict[str, str] = {}
    settings: dict[str, Setting] = {}
    install: Npm | Pip | Python | None = None
    read_only: list[str] = []
    debian: dict[str, str] = {}
    solution: bool = False
    untested: str = ""
    roles: list[RoleRule] = []

    def __post_init__(self) -> None:
        """Checks what types cannot say."""
        known = PLACEHOLDERS | set(self.settings)
        for text in (*self.argv, *self.env.values(), *self.files.values()):
            for name in PLACEHOLDER.findall(text):
                if name not in known:
                    raise ValueError(f"unknown placeholder {{{name}}}; known: {', '.join(sorted(known))}")
        for path in (*self.files, *self.programs):
            parts = PurePosixPath(path)
            if parts.is_absolute() or ".." in parts.parts:
                raise ValueError(f"{path!r} must be a path inside the home folder")
        for path in self.read_only:
            if not PurePosixPath(path).is_absolute():
                raise ValueError(f"read_only: {path!r} must be an absolute path")
        if taken := PLACEHOLDERS & set(self.settings):
            raise ValueError(f"settings: {', '.join(sorted(taken))} means something else already")


@cache
def load(file: Path) -> Adapter:
    """Reads and checks an adapter file.

    Raises:
        HarnessError: it cannot be read or is not a valid adapter; the text names the file, the place and the reason.
    """
    try:
        return msgspec.convert(tomllib.loads(file.read_text(encoding="utf-8")), Adapter)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as e:
        raise HarnessError(f"{file}: {e}") from None
    except msgspec.ValidationError as e:
        what, _, where = str(e).partition(" - at `$.")
        raise HarnessError(f"{file}: {where.rstrip('`') or 'content'}: {what}") from None
