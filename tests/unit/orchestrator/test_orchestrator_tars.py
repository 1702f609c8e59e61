"""Archives that come out of sandboxes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from services.orchestrator.backends.tars import pack, unpack
from shared.errors import SandboxError

Entry = tuple[str, bytes, str]
"""Name, kind (of `tarfile`), and content or where a link leads."""


def archive(*entries: Entry) -> io.BytesIO:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, kind, text in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o777
            if kind == tarfile.REGTYPE:
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
            else:
                info.linkname = text
                tar.addfile(info)
    file.seek(0)
    return file


def test_a_folder_comes_out_as_it_went_in(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "inner").mkdir(parents=True)
    (source / "inner" / "program").write_text("x")
    (source / "inner" / "program").chmod(0o755)
    (source / "link").symlink_to("inner/program")
    (source / "same").hardlink_to(source / "inner" / "program")
    file = io.BytesIO()
    pack(source, file)
    file.seek(0)
    unpack(file, tmp_path / "a" / "target")
    found = tmp_path / "a" / "target"
    assert (found / "link").read_text() == (found / "same").read_text() == "x"
    assert (found / "link").is_symlink()
    assert (found / "inner" / "program").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "entries",
    [
        [("../out", tarfile.REGTYPE, "x")],
        [("a/../../out", tarfile.REGTYPE, "x")],
        [("/tmp/openforge-never", tarfile.REGTYPE, "x")],
        [("a", tarfile.SYMTYPE, "/etc"), ("a/out", tarfile.REGTYPE, "x")],
        [("a", tarfile.SYMTYPE, "..")],
        [("a", tarfile.SYMTYPE, "b"), ("b", tarfile.SYMTYPE, "../../out")],
        [("a", tarfile.LNKTYPE, "/etc/hostname")],
        [("a", tarfile.FIFOTYPE, "")],
        [("a", tarfile.CHRTYPE, "")],
        [("a", tarfile.SYMTYPE, "b"), ("a", tarfile.REGTYPE, "x")],
        [("..", tarfile.DIRTYPE, "")],
    ],
)
def test_what_leads_out_or_is_no_file_is_refused(tmp_path: Path, entries: list[Entry]) -> None:
    with pytest.raises(SandboxError):
        unpack(archive(*entries), tmp_path / "inner" / "target")
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "inner" / "out").exists()
    assert not Path("/tmp/openforge-never").exists()


def test_garbage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="is not unpacked"):
        unpack(io.BytesIO(b"garbage" * 1000), tmp_path / "target")
