"""What the runner of a verifier is told that has a sandbox of its own. Pure but for looks at which files there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from services.orchestrator.handover import Handed
from services.orchestrator.plan import Attempt, begin, packages_of, resources_of, spec_of, verify_phase
from services.orchestrator.sandbox import Sandbox, log_folders
from services.orchestrator.spec import Copy, Phase, Spec, Unpack
from shared.config import Config
from shared.task import Apart, expand

_PACKAGE = "handed-{}"
_RUN_BUNDLED = ["/bin/sh", "-c", '[ -x "$TESTS_DIR/test.sh" ] || exec /bin/sh "$TESTS_DIR/test.sh"; exec "$TESTS_DIR/test.sh"']


def plan_apart(attempt: Attempt, where: Apart, left: Sequence[Handed], config: Config) -> tuple[Spec, dict[str, Path]]:
    """The spec, and the folders of this machine that a container's runner fetches, by their names in it.

    Args:
        attempt: with the record and sandbox of the verifier.
        where: it runs.
        left: by the agent.
        config: resolved configuration.

    Raises:
        TaskError: a variable is not set, or the working folder is one that a sandbox cannot have.
    """
    sandbox = Sandbox(attempt.isolation, attempt.sandbox, where.workdir)
    phase = verify_phase(attempt, sandbox, expand(where.environment.env, attempt.host_env), config, 0)
    own = attempt.isolation.network and where.network_mode != "public"
    phase["network"] = "own" if own else "shared"
    contained = attempt.isolation.kind == "container"
    if contained and attempt.task.verifier.user is None:
        phase["user"] = attempt.isolation.owner  # the agent's may be a name that only its own image knows
    _lay_out(phase, attempt, sandbox, where)
    folders = {_PACKAGE.format(number): item.folder for number, item in enumerate(left)}
    for name, item in zip(folders, left, strict=True):
        _hand(phase, sandbox, item, name if contained else "")
    spec = spec_of(attempt, config, resources_of(where.environment, config), [phase])
    return spec, packages_of(attempt.task, spec) | (folders if contained else {})


def _lay_out(phase: Phase, attempt: Attempt, sandbox: Sandbox, where: Apart) -> None:
    """What an agent's phase makes in a sandbox that both share. The verifier's own image is taken as it is, with its tests."""
    host, contained = sandbox.host("verify"), attempt.isolation.kind == "container"
    if not where.bundled:
        begin(phase, attempt, sandbox)
        return
    phase["fresh"] += [f"{host.logs}/{name}" for name in log_folders("agent")]
    if contained:
        phase["own"], phase["packages"], phase["executable"], phase["argv"] = [host.app], [], [], _RUN_BUNDLED
        phase["fresh"].remove(host.tests)
    else:
        phase["fresh"].append(host.app)


def _hand(phase: Phase, sandbox: Sandbox, item: Handed, package: str) -> None:
    """Puts an artifact where it was; a folder in the place of the one that is there."""
    host = sandbox.host("verify")
    place = PurePosixPath(sandbox.path_of(str(item.source), host))
    if item.tree and str(place) not in phase["fresh"]:
        phase["fresh"].append(str(place))
    if item.tree and place == PurePosixPath(host.app):  # all that is in the working folder is what the agent left there
        phase["copies"] = [copy for copy in phase["copies"] if copy["target"] != host.app]
        phase["packages"] = [unpack for unpack in phase["packages"] if unpack["target"] != host.app]
    if package:
        phase["packages"].append(Unpack(package=package, target=str(place.parent)))
    elif item.tree:
        phase["copies"].append(Copy(source=str(item.folder / item.source.name), target=str(place), skip=[]))
    else:
        phase["copies"].append(Copy(source=str(item.folder), target=str(place.parent), skip=[]))
