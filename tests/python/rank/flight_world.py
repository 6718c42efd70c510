"""Runs a script on ranks that record what they do, and reads their rings."""

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from warm_process import Warm

from paceline import _native

RANK = Path(__file__).parent / "flight_rank.py"
FORKED = f"""
import sys
sys.path.insert(0, {str(RANK.parent)!r})
import flight_rank
flight_rank.main()
"""
PREAMBLE = "import torch, torch.distributed as dist\nfrom flight_rank import *\n"
# A store in a file: no port can be taken by another test.
WORLD = """
import os
rank = int(os.environ["RANK"])
store = dist.FileStore(os.environ["TEST_STORE"], 2)
dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
"""


@dataclass(frozen=True, kw_only=True)
class Rank:
    """How one rank went: its ring, and what it printed."""

    ring: dict[str, Any]
    out: str

    def entries(self, *kinds: int) -> list[dict[str, Any]]:
        return [entry for entry in self.ring["entries"] if entry["kind"] in kinds]

    @property
    def collectives(self) -> list[dict[str, Any]]:
        return self.entries(1)

    @property
    def phases(self) -> list[str]:
        return [entry["operation"] for entry in self.entries(3)]


def run_ranks(
    folder: Path, script: str, *, ranks: int = 1, watched: bool = True, warm: Warm | None = None
) -> list[Rank]:
    """Run `script` on that many ranks; with two of them there is a gloo group, `rank`, `store`.

    With `warm` they are forks of a process that has torch loaded, as ranks of a starter are.
    Without it each imports torch when it is watched already, which costs three seconds.
    """
    text = PREAMBLE + (WORLD if ranks > 1 else "") + textwrap.dedent(script)
    if ranks > 1:
        text += "\ndist.destroy_process_group()\n"
    (folder / "train.py").write_text(text)
    (folder / "store").unlink(missing_ok=True)
    kept = "PACELINE_RUNTIME_DIR"  # where the test ends its keepers
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PACELINE_") or k == kept}
    base = clean | {"TEST_STORE": str(folder / "store"), "OMP_NUM_THREADS": "1"}
    begun: list[int | subprocess.Popen[str]] = []
    for rank in range(ranks):
        env = base | {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        if watched:
            env["PACELINE_RING"] = str(folder / f"ring.{rank}")
        if warm is not None:
            begun.append(warm.start(FORKED, "train.py", env=env, clean={}, cwd=folder))
            continue
        begun.append(
            subprocess.Popen(
                [sys.executable, str(RANK), str(folder / "train.py")],
                env=env, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
        )  # fmt: skip
    return [_ended(rank, one, folder, watched, warm) for rank, one in enumerate(begun)]


def _ended(
    rank: int, begun: "int | subprocess.Popen[str]", folder: Path, watched: bool, warm: Warm | None
) -> Rank:
    if isinstance(begun, int):
        assert warm is not None
        ended = warm.wait(begun)
        code, out, err = ended.returncode, ended.stdout, ended.stderr
    else:
        out, err = begun.communicate(timeout=180)
        code = begun.returncode
    assert code == 0, err
    ring = _native.read_ring((folder / f"ring.{rank}").read_bytes()) if watched else {}
    return Rank(ring=ring, out=out)


def line_of(script: str, text: str, *, ranks: int) -> str:
    """Where `text` stands in the script as `run_ranks` writes it, for example "train.py:14"."""
    lines = (PREAMBLE + (WORLD if ranks > 1 else "") + textwrap.dedent(script)).splitlines()
    return f"train.py:{next(n for n, line in enumerate(lines, 1) if text in line)}"
