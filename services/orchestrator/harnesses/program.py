"""From an adapter to a launch: the one harness there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from services.orchestrator.harnesses import Launch, Request
from services.orchestrator.harnesses.adapter import PLACEHOLDER, Adapter, Setting, load
from services.orchestrator.harnesses.installed import Found, apt_command, find, find_in_image
from shared.errors import HarnessError
from shared.roles import RoleRule

MAX_ARGUMENT = 100_000  # bytes; the kernel refuses a longer argument than 128 kB


@dataclass(frozen=True, slots=True)
class Program:
    """A harness made of an adapter file."""

    file: Path

    def roles(self) -> list[RoleRule]:
        """See `Harness.roles`."""
        return load(self.file).roles

    def launch(self, request: Request) -> Launch:
        """See `Harness.launch`."""
        name, adapter = self.file.stem, load(self.file)
        found = _found(name, adapter, request.in_image)
        values = _values(request, adapter)
        argv = (found.program, *(fill(text, values) for text in adapter.argv[1:]))
        if max(len(argument.encode()) for argument in argv) > MAX_ARGUMENT:
            raise HarnessError(f"the task's instruction is longer than the {MAX_ARGUMENT} bytes that {name} can be given")
        files: dict[str, str] = {}
        for path, source in adapter.programs.items():
            files |= _texts(path, self.file.parent / source)
        return Launch(
            argv=argv,
            env=({"PATH": found.path} if found.path else {}) | {key: fill(text, values) for key, text in adapter.env.items()},
            files=files | {path: fill(text, values) for path, text in adapter.files.items()},
            read_only=() if request.in_image else (*found.read_only, *map(Path, adapter.read_only)),
            solution=adapter.solution,
        )


def _found(name: str, adapter: Adapter, in_image: bool) -> Found:
    """The program. What it needs of Debian is in a container the business of the task's image."""
    if in_image:
        return find_in_image(name, adapter.install, adapter.argv[0])
    found = find(name, adapter.install, adapter.argv[0])
    if command := apt_command(adapter.debian):
        raise HarnessError(f"{name} needs programs that this machine lacks; run {command}")
    return found


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replaces the placeholders of a text; other braces stay."""
    return PLACEHOLDER.sub(lambda match: values[match[1]], text)


def _values(request: Request, adapter: Adapter) -> dict[str, str]:
    """What each placeholder stands for."""
    return {
        "base_url": request.base_url, "base_url_v1": f"{request.base_url}/v1", "key": request.key, "model": request.model,
        "context_length": str(request.context_length),
        "compact_share_of_1m": f"{0.7 * request.context_length / 2**20:.6f}",
        "instruction": request.instruction, "home": request.home, "logs": request.logs, "workdir": request.workdir,
        **{name: _setting(request.metadata, name, setting) for name, setting in adapter.settings.items()},
    }  # fmt: skip


def _setting(metadata: Mapping[str, Any], name: str, setting: Setting) -> str:
    value = metadata.get(name, setting.default)
    size = len(value) if isinstance(value, str) else value
    if type(value) is not type(setting.default) or size < setting.minimum:
        what = "a whole number from {}" if isinstance(setting.default, int) else "a text of at least {} characters"
        raise HarnessError(f"the task's metadata.{name} is {value!r}; expected {what.format(setting.minimum)}")
    return str(value)


@cache
def _texts(path: str, source: Path) -> dict[str, str]:
    """A file, or all Python files of a folder, as texts by their paths in the home folder."""
    files = {path: source}
    if source.is_dir():
        files = {f"{path}/{file.relative_to(source)}": file for file in sorted(source.rglob("*.py"))}
    try:
        return {path: file.read_text(encoding="utf-8") for path, file in files.items()}
    except (OSError, UnicodeDecodeError) as e:
        raise HarnessError(f"{source}: {e}") from None
