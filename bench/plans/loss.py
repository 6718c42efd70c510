"""A node is killed, and no spare is there: how much longer does the next world take with a plan?

    .venv/bin/python -m bench.plans.loss --rounds 5

Three nodes of one rank on this machine, `--nnodes 2:3`, each step saved to memory. The last node is
killed (its agent and its rank at once), and the two others go on: under a new plan, or, without a
plan, in a smaller world of DistributedDataParallel with the same model and data. Measured is the
time from the kill until both have done a step. Both kinds run in turn.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from bench.harness import BENCH, Job, Samples, finish, paceline, parser, prepare, send

NODES, CAP = 3, 60


def lose(samples: Samples, mode: str, bin_dir: Path, cache: str) -> None:
    shape = ("--local-nodes", str(NODES), "--nnodes", f"{NODES - 1}:{NODES}",
             "--nproc-per-node", "1", "--replace-nodes", "off")  # fmt: skip
    system = paceline(bin_dir, *shape, "--run-dir", "{run_dir}", "--keep-warm", "30m", name=mode)
    env = {"XDG_CACHE_HOME": cache, "PYTHONPATH": str(BENCH.parent)}
    system = type(system)(name=mode, command=system.command, env=env)
    script = BENCH / "plans/loss_training.py"
    with Job([system], script=script, script_args=("--mode", mode)) as job:
        if job.first_steps(ranks=range(NODES), after=job.started, within=180) is None:
            raise SystemExit(f"{mode} did not start\n{job.tail()}")
        time.sleep(1)
        command = [bin_dir / "paceline", "status", "--json", "--run-dir", job.dir / "run"]
        status = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        last = next(node for node in status["nodes"]
                    if any(rank["rank"] == NODES - 1 for rank in node["ranks"]))  # fmt: skip
        pids = [last["agent_pid"], *(rank["pid"] for rank in last["ranks"])]
        struck_at = time.monotonic()
        for pid in pids:
            send(pid, signal.SIGKILL)
        ranks = job.first_steps(ranks=range(NODES - 1), after=struck_at, within=CAP)
        seconds = max(stamp.at for stamp in ranks.values()) - struck_at if ranks else None
        samples.add(mode, seconds, load=os.getloadavg()[0], **about(job, struck_at))


def about(job: Job, after: float) -> dict[str, object]:
    """What rank 0's first stamp after that says: seconds until it was ready, its plan."""
    for path in job.stamps_dir.glob("0.*"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            if row["step"] == 1 and row["at"] > after:
                told = {name: row.get(name) for name in ("plan", "because", "restored")}
                return {"begin": row["begin"] - after, "ready": row["ready"] - after, **told}
    return {}


def main() -> None:
    options = parser("A node is lost until the first step of a smaller world, with a plan or not.")
    options.add_argument("--rounds", type=int, default=5)
    args = options.parse_args()
    prepare()
    samples = Samples("plan_loss")
    with tempfile.TemporaryDirectory() as cache:  # the first job of a kind fills it
        for number in range(args.rounds):
            order = ("ddp", "plan") if number % 2 == 0 else ("plan", "ddp")
            for mode in order:
                lose(samples, mode, args.bin, cache)
    finish()
    print(samples.summary("ddp", "plan"))


if __name__ == "__main__":
    main()
