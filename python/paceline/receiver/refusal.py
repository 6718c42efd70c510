"""What the receiver refuses, as four lines that a writer raises again."""

from paceline.errors import DataError


class Refusal(DataError):
    """A call or a start that is refused. `code` is its row in docs/errors.md."""

    def __init__(self, *, what: str, where: str, why: str, fix: str, code: str = "PL-E222") -> None:
        super().__init__(what=what, where=where, why=why, fix=fix)
        self.code = code

    def line(self) -> str:
        """What stands in a Flight error; `parsed` is its inverse."""
        parts = (self.what, self.where, self.why, self.fix)
        return "\n".join((f"refused[{self.code}]", *(one.replace("\n", " ") for one in parts), ""))


def parsed(text: str) -> Refusal | None:
    """The refusal in the text of a Flight error. None: it is another error."""
    _, found, rest = text.partition("refused[")
    lines = rest.split("\n")
    if not found or len(lines) < 6:
        return None
    return Refusal(what=lines[1], where=lines[2], why=lines[3], fix=lines[4],
                   code=lines[0].partition("]")[0])
