"""The saved position of a loader, and its format."""

from typing import cast

from paceline._base import arguments
from paceline._data.order import Json
from paceline.errors import DataError

SCHEMA = "paceline.data/1"
_PLACE = ("epoch", "consumed")


def checked_state(state: object) -> Json:
    fields = cast("Json", state) if isinstance(state, dict) else {}
    fields = {**fields, **{key: arguments.whole(fields.get(key)) for key in _PLACE}}
    numbers = [fields[key] for key in _PLACE]
    is_whole = fields.get("schema") == SCHEMA and all(
        isinstance(fields.get(key), dict) for key in ("order", "fingerprint")
    )
    if not is_whole or not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise DataError(
            what="the state is not a position of a loader",
            where="load_state_dict",
            why=f"it is not a {SCHEMA}: {str(state)[:80]}",
            fix="restore the loader under the name under which it was saved",
        )
    return fields
