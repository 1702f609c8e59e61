"""A real Kubernetes for tests: what scripts/kubernetes.sh starts, and ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
SCRIPT = REPO / "scripts/kubernetes.sh"
BUILT = Path(os.environ.get("OPENFORGE_CACHE") or Path.home() / ".cache/openforge") / "kubernetes/built"
NOT_BUILT = "no Kubernetes is built here: make kubernetes"
START_S = 240
_POLICY = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: RequestResponse, verbs: [create], resources: [{group: "", resources: [pods]}]}
  - {level: None}
"""


class Cluster:
    """One cluster in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "admin.kubeconfig"

    @property
    def gateway(self) -> str:
        """Address of this machine, as pods of the real node see it."""
        bridge = (self.folder / "node/bridge").read_text().strip()
        return f"10.244.{bridge.removeprefix('openforge')}.1"

    def up(self) -> None:
        """Starts what does not run of the control plane."""
        self._script("up", str(self.folder))

    def audit(self) -> None:
        """Has the API server note which pods it makes; before it is started."""
        (self.folder / "audit.yaml").write_text(_POLICY)

    def made_pods(self, namespace: str) -> list[tuple[str, str]]:
        """Name and uid of every pod that was ever made in a namespace, by the audit."""
        notes = [json.loads(line) for line in (self.folder / "audit.log").read_text().splitlines()]
        made = [note["responseObject"]["metadata"] for note in notes if note["responseStatus"]["code"] == 201]
        return [(about["name"], about["uid"]) for about in made if about["namespace"] == namespace]

    def node(self) -> None:
        """Starts a real node, `localhost`. Takes root."""
        self._script("node", str(self.folder))

    def load(self, archive: Path) -> None:
        """Gives the real node the images of an archive."""
        self._script("load", str(self.folder), str(archive))

    def down(self) -> None:
        """Ends all of it."""
        self._script("down", str(self.folder))

    def kill(self, name: str) -> None:
        """Kills one of its programs, like `apiserver`, with -9."""
        os.kill(int((self.folder / f"{name}.pid").read_text()), signal.SIGKILL)

    @contextmanager
    def fake_nodes(self, *options: str) -> Iterator[None]:
        """Nodes that only say that they run pods (see `fake_node`), for as long as this is open."""
        command = [sys.executable, "-m", "tests.kube.fake_node", str(self.kubeconfig), str(self.folder / "pki"), *options]
        with (self.folder / "fake_nodes.log").open("ab") as log:
            nodes = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=REPO)
        assert nodes.stdout is not None, "it is a pipe"
        try:
            if nodes.stdout.readline() != b"ready\n":
                raise RuntimeError(f"the fake nodes did not come up: {self.folder / 'fake_nodes.log'}")
            yield
        finally:
            nodes.kill()
            nodes.wait()

    def _script(self, *args: str) -> None:
        done = subprocess.run([SCRIPT, *args], capture_output=True, timeout=START_S, check=False)
        if done.returncode:
            raise RuntimeError(f"{SCRIPT.name} {' '.join(args)}: {done.stderr.decode(errors='replace')[-2000:]}")
