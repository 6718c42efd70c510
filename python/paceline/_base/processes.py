"""What the kernel says about processes."""


def stat_of(pid: int) -> list[str]:
    """The fields of /proc/PID/stat, beginning with the state; [] if there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def start_time(pid: int) -> int:
    """Clock ticks since boot at which `pid` started; 0 if there is no such process."""
    fields = stat_of(pid)
    return int(fields[19]) if fields else 0


def parent_of(pid: int) -> int:
    """The pid of its parent; 0 if there is no such process."""
    fields = stat_of(pid)
    return int(fields[1]) if fields else 0
