"""python -m paceline._drill DIR: copies the scripts of the drills into DIR."""

import shutil
import sys
from pathlib import Path

SCRIPTS = ("around.py", "drill_job.py", "faults.py", "others.py")


def main() -> None:
    for name in SCRIPTS:
        shutil.copyfile(Path(__file__).with_name(name), Path(sys.argv[1]) / name)


if __name__ == "__main__":
    main()
