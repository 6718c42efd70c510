"""The master is SIGKILLed: how long until it serves again, and what did training lose?

    .venv/bin/python -m bench.runtime.master_restart --rounds 30

Serving again means that the new master's /healthz answers. Training loses nothing when the ranks
are the same processes before and after, and go on stepping in between. The peers have no number
here: a job of torchrun ends with the node that hosts its store.
"""

import json
import signal
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from bench.harness import Job, Samples, finish, paceline, parser, prepare, send

RANKS = range(4)


def master_of(run_dir: Path) -> tuple[int, str]:
    job = json.loads((run_dir / "job.json").read_text())
    return int(job["master"]["pid"]), str(job["master"]["http"])


def serves(run_dir: Path, *, not_pid: int) -> bool:
    pid, address = master_of(run_dir)
    if pid == not_pid:
        return False
    token = (run_dir / "token").read_text().strip()
    url = address if address.startswith("http") else f"http://{address}"
    request = urllib.request.Request(f"{url}/healthz", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=1) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def main() -> None:
    options = parser("SIGKILL of the master until it serves again.")
    options.add_argument("--rounds", type=int, default=30)
    args = options.parse_args()
    prepare()
    samples = Samples("master_restart")
    system = paceline(args.bin, "--standalone", "--nproc-per-node", "4", "--run-dir", "{run_dir}")
    with Job([system], script_args=("--every", "20")) as job:
        first = job.first_steps(ranks=RANKS, after=job.started, within=180)
        if first is None:
            print(job.tail(), file=sys.stderr)
            raise SystemExit("the job did not start")
        for _ in range(args.rounds):
            time.sleep(0.5)
            old, _address = master_of(job.dir / "run")
            killed_at = time.monotonic()
            send(old, signal.SIGKILL)
            back: float | None = None
            while back is None and time.monotonic() < killed_at + 30:
                if serves(job.dir / "run", not_pid=old):
                    back = time.monotonic()
                time.sleep(0.002)
            stamps = job.stamps()
            same = {stamp.pid for stamp in stamps} == {stamp.pid for stamp in first.values()}
            seconds = back - killed_at if back else None
            during = sum(1 for s in stamps if killed_at < s.at < (back or killed_at))
            samples.add("paceline", seconds, ranks_untouched=same, stamps_meanwhile=during)
            if not same or back is None:
                raise SystemExit("the job did not survive its master")
    finish()
    print(samples.summary("paceline") + " | 0 steps lost")


if __name__ == "__main__":
    main()
