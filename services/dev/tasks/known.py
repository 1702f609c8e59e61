"""Whether an accepted task is still what was accepted: its folder, and the image that it was tried in."""

from __future__ import annotations

from pathlib import Path

import msgspec

from services.synth.books import Known, known_beside
from services.synth.gates.bare import NULL
from services.synth.gates.base import Looking, told
from services.synth.model import Proposal, Verdict
from services.synth.ports import Room
from shared.config import OrchestratorConfig
from shared.task import folder_digest


class AsAccepted(Looking):
    """Compares a task with what `openforge synth` noted beside it.

    Args:
        settings: that say where sandboxes run.
    """

    name = "known"

    def __init__(self, settings: OrchestratorConfig) -> None:
        self._images = settings.backend != "local"

    async def look(self, proposal: Proposal, folder: Path, room: Room) -> Verdict:
        """See `Looking.look`."""
        try:
            known = known_beside(folder)
        except msgspec.DecodeError as e:
            return self.failed("unreadable", f"its file in .known cannot be read: {e}; remove it, or make the task again")
        if known is None:
            return self.skipped("openforge synth left nothing beside it")
        if (digest := folder_digest(folder)) != known.digest:
            detail = f"its folder was changed since {known.run} accepted it: what its gates said is of other content"
            return self.failed("changed", detail, accepted=known.digest, found=digest)
        return await self._image(proposal, folder, room, known)

    async def _image(self, proposal: Proposal, folder: Path, room: Room, known: Known) -> Verdict:
        if not self._images or not known.image:
            return self.passed("its folder is as it was accepted; no image was compared")
        ended = (await room.trials.run(proposal.task_id, folder, [NULL]))[0]
        if ended.image in ("", known.image):
            return self.passed("" if ended.image else f"it ran in no image: {ended.error}", image=ended.image)
        detail = (
            f"it runs in the image {ended.image} and was accepted in {known.image}, built of the same folder: what the build "
            "takes from elsewhere changed, or the image was removed and built anew. Where the other gates pass, the task is "
            "sound in this one, too; pin what its Dockerfile takes from elsewhere"
        )
        return self.failed("other-image", detail, accepted=known.image, found=ended.image, trials=told([ended]))
