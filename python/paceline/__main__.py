"""python -m paceline: the `paceline` command of this interpreter's environment.

Job scripts name an interpreter that way, as they do for `python -m torch.distributed.run`. So the
ranks run with it, too, unless something else is asked for.
"""

import os
import shutil
import sys
import sysconfig


def command() -> str | None:
    """The path of the program: `command()` is "/venv/bin/paceline"."""
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user"),
               os.path.dirname(sys.executable)]
    for folder in folders:
        path = os.path.join(folder, "paceline")
        if os.access(path, os.X_OK):
            return path
    return shutil.which("paceline")


def main() -> None:
    """Become the command with the same arguments."""
    path = command()
    if path is None:
        sys.exit("python -m paceline: the program `paceline` is missing beside this interpreter; "
                 "install the wheel again: pip install --force-reinstall paceline")
    os.environ.setdefault("PACELINE_LAUNCH_PYTHON", sys.executable)
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
