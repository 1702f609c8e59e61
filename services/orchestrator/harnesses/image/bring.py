"""Run while a harness image is built: copies programs with their loader and libraries, so that they run in any image.

    python3 bring.py TARGET python          this Python and its standard library, to TARGET/python
    python3 bring.py TARGET program FILE    makes a program under TARGET one that uses TARGET's loader and libraries

A program names its loader by an absolute path, and an RPATH holds for whatever it loads later too (a RUNPATH would not): so
neither needs a shell or a variable, and nothing that it starts in turn is affected.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

_LEFT_OUT = ("test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "dist-packages", "site-packages")
_ALWAYS = ("libstdc++.so.6", "libgcc_s.so.1", "libnss_dns.so.2", "libnss_files.so.2")
"""What Python wheels and Node load, or the C library by itself, beyond what Python does."""


def bring_python(target: Path) -> None:
    """Copies this Python."""
    program = Path(sys.executable).resolve()
    copy = target / "python" / "bin" / program.name
    copy.parent.mkdir(parents=True)
    shutil.copy2(program, copy)
    for name in ("python", "python3"):
        (copy.parent / name).symlink_to(copy.name)
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, target / "python" / "lib" / library.name, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    for file in [program, *library.glob("lib-dynload/*.so")]:
        bring_libraries(file, target)
    for name in _ALWAYS:
        if found := re.search(rf"=> (\S*/{re.escape(name)})$", run("ldconfig", "-p"), re.MULTILINE):
            copy_library(Path(found[1]), target)
    adopt(copy, target)


def adopt(program: Path, target: Path) -> None:
    """Makes a program one that uses the loader and the libraries of `target`."""
    bring_libraries(program, target)
    loader = Path(run("patchelf", "--print-interpreter", str(program)).strip())
    copy_library(loader, target)
    own = ["--set-interpreter", f"{target}/lib/{loader.name}", "--force-rpath", "--set-rpath", f"{target}/lib"]
    run("patchelf", *own, str(program))


def bring_libraries(file: Path, target: Path) -> None:
    """Copies what a program or library is linked with."""
    for path in re.findall(r"=> (/\S+) \(0x", run("ldd", str(file))):
        copy_library(Path(path), target)


def copy_library(library: Path, target: Path) -> None:
    """Copies a library under the name that it is asked for by."""
    copy = target / "lib" / library.name
    if not copy.exists():
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library.resolve(), copy)


def run(*argv: str) -> str:
    """What a command prints."""
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=env).stdout


if __name__ == "__main__":
    where, what, *files = sys.argv[1:]
    if what == "python":
        bring_python(Path(where))
    for file in files:
        adopt(Path(file), Path(where))
