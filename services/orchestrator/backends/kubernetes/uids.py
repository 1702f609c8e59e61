"""Which pod a session has, so that no other one of its name is removed. Pure."""

from __future__ import annotations

from services.orchestrator.backends.kubernetes.pods import Pod
from services.orchestrator.backends.kubernetes.podstate import session_of


class Uids:
    """Unique ids of the pods that there are, by session."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._known)

    def listed(self, pods: list[Pod]) -> None:
        """These are all that there are."""
        self._known.clear()
        for pod in pods:
            self.happened("ADDED", pod)

    def happened(self, kind: str, pod: Pod) -> None:
        """An event of a watch, or a pod that was made (`ADDED`)."""
        session, uid = session_of(pod), pod.metadata.uid
        if kind in ("ADDED", "MODIFIED") and session:
            self._known[session] = uid
        elif kind == "DELETED" and self._known.get(session) == uid:
            del self._known[session]

    def of(self, session: str) -> str:
        """Of a session's pod; empty if it is not known."""
        return self._known.get(session, "")
