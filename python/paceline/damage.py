"""An image that turned out not to be what was saved: the keeper hears of it, the script too."""

from typing import cast

from paceline.checkpoint_link import Fields, Link
from paceline.images import UnreadableError
from paceline.patience import STORAGE_SECONDS
from paceline.plan import CheckpointError


def tell_damaged(link: Link, answer: Fields, error: UnreadableError) -> CheckpointError:
    """Tell the keeper, so that nobody takes it again; the next world takes an older one.

    Storage that does not answer says nothing about what lies in it.
    """
    if answer.get("path") and error.is_away:
        return CheckpointError(
            what=f"step {answer.get('step')} cannot be read",
            where=str(answer.get("path")),
            why=f"storage was away for {STORAGE_SECONDS / 60:.0f} minutes: {error}",
            fix="mend the storage and start again: the checkpoint is taken for whole",
        )
    images = cast("list[dict[str, object]]", answer.get("images", []))
    # Of storage one of them may be in memory, which a host has read for all.
    is_stored = answer.get("from") == "storage"
    if is_stored and all(one["rank"] != error.rank for one in images):
        link.tell({"op": "damaged", "name": answer.get("name")})
    else:
        for one in [one for one in images if error.rank in (None, one["rank"])]:
            link.tell(
                {
                    "op": "damaged",
                    "place": one["place"],
                    "is_copy": one.get("is_copy", False),
                    "rank": one["rank"],
                    "generation": answer["generation"],
                    "branch": answer["branch"],
                    "step": answer["step"],
                }
            )
    return CheckpointError(
        what=f"step {answer.get('step')} cannot be restored",
        where=str(answer.get("path", "memory")),
        why=str(error),
        fix="nothing to do under paceline run: it goes on from the newest step that is whole",
    )
