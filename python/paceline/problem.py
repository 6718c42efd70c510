"""The base of every error that is meant for users: what, where, why and what to do."""


class PacelineError(Exception):
    """Four parts: `what` happened, `where`, `why`, and the `fix`.

    >>> raise PacelineError(what="no room", where="/dev/shm", why="it is full", fix="remount it")
    """

    def __init__(self, *, what: str, where: str, why: str, fix: str) -> None:
        self.what = what
        self.where = where
        self.why = why
        self.fix = fix
        super().__init__(f"{what}\n  where  {where}\n  why    {why}\n  fix    {fix}")


def with_article(name: str) -> str:
    """A class name with "a" or "an" before it: `with_article("int")` is "an int"."""
    is_spoken_vowel = name[:1].lower() in tuple("aeiou") or name == "ndarray"
    return f"{'an' if is_spoken_vowel else 'a'} {name}"


def described(value: object) -> str:
    """What kind of object that is: `described(3)` is "an int"."""
    return with_article(type(value).__qualname__)
