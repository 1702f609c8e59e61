"""Makes an image archive, as `docker save` would, of a folder: standard library only, no engine, no registry."""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import tarfile
from pathlib import Path


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path, help="file to write")
    parser.add_argument("name", help="of the image, like localhost/pause:1")
    parser.add_argument("root", type=Path, help="folder with the image's files")
    parser.add_argument("--entrypoint", nargs="+", default=[], help="program and its arguments")
    parser.add_argument("--workdir", default="", help="folder that programs start in")
    args = parser.parse_args()
    config = {"Entrypoint": args.entrypoint, "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "WorkingDir": args.workdir}
    make(args.archive, args.name, args.root, config)


def make(archive: Path, name: str, root: Path, config: dict[str, object]) -> None:
    """Writes the archive of an image with one layer."""
    layer = archive.with_suffix(".layer")
    with tarfile.open(layer, "w") as tar:
        tar.add(root, arcname=".")
    with layer.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    about = {"architecture": "amd64", "os": "linux", "config": config}
    image = json.dumps({**about, "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}).encode()
    image_name = f"{hashlib.sha256(image).hexdigest()}.json"
    manifest = [{"Config": image_name, "RepoTags": [name], "Layers": [f"{digest}/layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        tar.add(layer, arcname=f"{digest}/layer.tar")
        for path, data in ((image_name, image), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    layer.unlink()


if __name__ == "__main__":
    main()
