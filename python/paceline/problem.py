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
