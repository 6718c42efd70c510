"""A million flipped bits in arenas and in stored checkpoints: is one ever restored unnoticed?

    ninja -C build/release bench_flips
    .venv/bin/python -m bench.checkpoint.flips --flips 1000000

One bit at a time, anywhere in an arena's control, an image, a shard, notes and a manifest; each is
followed by a restore. Refused is good; harmless is a bit that nobody reads, or that only hides the
image; wrong is a restore of other bytes than were saved, and must be 0.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile

from bench.harness import BENCH, Samples, machine


def main() -> None:
    options = argparse.ArgumentParser(description="Flipped bits, and what a restore makes of them.")
    options.add_argument("--flips", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    args = options.parse_args()
    print(machine(), file=sys.stderr)
    samples = Samples("checkpoint_flips")
    tool = BENCH.parent / "build" / "release" / "bench" / "bench_flips"
    folder = tempfile.mkdtemp(prefix="paceline-bench-", dir="/dev/shm")
    command = [str(tool), folder, str(args.flips), str(args.seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    shutil.rmtree(folder)
    text: list[str] = []
    for line in done.stdout.splitlines():
        row = json.loads(line)
        samples.add(row.pop("what"), None, **row)
        text.append(f"{samples.rows[-1]['system']} {row['wrong']} of {row['flips']} wrong")
    print("checkpoint_flips: " + (" | ".join(text) or "it did not run"))
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
