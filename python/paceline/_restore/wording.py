"""Lists of names, tensors and sentences in messages of a restore."""

from paceline._state.save_plan import Box

_TOLD_MAX = 8


def listed(names: list[str], most: int = _TOLD_MAX) -> str:
    """The first `most` names as a text, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def form_of(box: Box) -> str:
    """Type and shape of a tensor: `F32 [4, 8]`."""
    return f"{box.kind or box.dtype} {list(box.whole)}"


def shortened(sentences: list[str]) -> str:
    """The first `_TOLD_MAX` sentences as one text, and how many more there are."""
    more = len(sentences) - _TOLD_MAX
    return "; ".join(sentences[:_TOLD_MAX]) + (f"; and {more} more" if more > 0 else "")
