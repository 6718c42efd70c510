"""python -m paceline: the `paceline` command of this interpreter's environment.

Job scripts choose an interpreter this way, as with `python -m torch.distributed.run`. The ranks
run in the same interpreter unless a flag names another one.
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
    """Replace this process by the `paceline` program, with the same arguments."""
    path = command()
    if path is None:
        sys.exit("python -m paceline: the program `paceline` is missing beside this interpreter; "
                 "install the wheel again: pip install --force-reinstall paceline")
    os.environ.setdefault("PACELINE_LAUNCH_PYTHON", sys.executable)
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
