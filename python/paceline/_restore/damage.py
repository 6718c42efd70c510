"""Reports damaged checkpoints to the keeper and to the script."""

from typing import cast

from paceline._base.wording import say
from paceline._checkpoint.link import Fields, Link
from paceline._restore.images import UnreadableError
from paceline._restore.patience import STORAGE_SECONDS
from paceline.errors import CheckpointError

READ_RIGHTS = (
    "grant this user the rights to read it and start again: it does not count as damaged"
)


def tell_passed_over(answer: Fields, *, says: bool) -> str:
    """Text about newer checkpoints that the restore skipped, to append to a sentence.

    `says`: also print each of its sentences to stderr.
    """
    sentences = [str(one) for one in cast("list[object]", answer.get("passed_over", []))]
    for sentence in sentences if says else []:
        say(sentence)
    return "".join(f"; {sentence}" for sentence in sentences)


def tell_damaged(link: Link, answer: Fields, error: UnreadableError) -> CheckpointError:
    """Report the damaged step to the keeper, so that the next world restores an older one.

    Storage that does not answer is not reported: its content may be undamaged.
    """
    if error.is_denied:
        return CheckpointError(
            what=f"step {answer.get('step')} cannot be read",
            where=str(answer.get("path", "memory")),
            why=str(error),
            fix=READ_RIGHTS,
        )
    if answer.get("path") and error.is_away:
        return CheckpointError(
            what=f"step {answer.get('step')} cannot be read",
            where=str(answer.get("path")),
            why=f"storage could not be reached for {STORAGE_SECONDS / 60:.0f} minutes: {error}",
            fix="repair the storage and start again: the checkpoint does not count as damaged",
        )
    images = cast("list[dict[str, object]]", answer.get("images", []))
    # If the step is from storage, `images` has files that one host read for all. Damage in a rank
    # outside of them is damage in storage.
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
    where = str(answer.get("path", "memory"))
    fix = "paceline run goes on from the newest step that is whole; start another script again"
    if is_stored:
        fix += f", or first remove this one: paceline ckpt rm {where}"
    return CheckpointError(
        what=f"step {answer.get('step')} cannot be restored",
        where=where,
        why=str(error),
        fix=fix,
    )
