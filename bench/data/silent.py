"""A node that holds a lease goes silent: how long until another worker has it?

    .venv/bin/python -m bench.data.silent --rounds 10

Two nodes of one rank on this machine and a spare. The rank of the second node takes all the leases
there are and keeps them; then its node is frozen: agent and rank, by SIGSTOP. Measured is until one
is at a rank of the next world, which is what a user waits for: the silence is noticed, the world is
decided and started anew, and a rank asks.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from bench.data.leases import reader, take
from bench.harness import Job, Samples, finish, paceline, parser, prepare, send

ORDINALS = 100


def inside(stamps: Path) -> None:
    """A rank: the one of the second node in the first world holds, whoever else gets it tells."""
    rank, held = int(os.environ["RANK"]), stamps / "holds"
    is_holder = rank == 1 and not held.exists()
    while not is_holder and not held.exists():
        time.sleep(0.01)
    source = reader("silent", rank, ahead=0, lease=ORDINALS, ordinals=ORDINALS)
    lease, _, end = take(source)
    if is_holder:
        while source.take(0.2, False)[0] != "wait":  # whatever else there is
            pass
        held.write_text("")
        signal.pause()
    now = time.monotonic()
    with (stamps / "got").open("a") as file:
        file.write(json.dumps({"rank": rank, "at": now}) + "\n")
    source.ack(lease, end)
    while source.flush(0.5)[0] == "timeout":
        pass
    source.close()


def wait_for(path: Path, seconds: float) -> None:
    until = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > until:
            raise SystemExit(f"no {path.name} within {seconds} s")
        time.sleep(0.005)


def once(samples: Samples, bin_dir: Path) -> None:
    shape = ("--local-nodes", "2", "--nproc-per-node", "1", "--spares", "1")
    system = paceline(bin_dir, *shape, "--run-dir", "{run_dir}", name="silent node")
    with Job([system], script=Path(__file__)) as job:
        wait_for(job.stamps_dir / "holds", 60)
        time.sleep(1)  # the other rank asks and waits
        command = [bin_dir / "paceline", "status", "--json", "--run-dir", job.dir / "run"]
        status = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        node = next(n for n in status["nodes"] if any(r["rank"] == 1 for r in n["ranks"]))
        pids = [node["agent_pid"], *(rank["pid"] for rank in node["ranks"])]
        struck = time.monotonic()
        for pid in pids:
            send(pid, signal.SIGSTOP)
        wait_for(job.stamps_dir / "got", 60)
        time.sleep(0.05)
        rows = [json.loads(x) for x in (job.stamps_dir / "got").read_text().splitlines()]
        samples.add(system.name, rows[0]["at"] - struck, ranks=len(rows))
        for pid in pids:
            send(pid, signal.SIGCONT)


def main() -> None:
    options = parser("A silent node's lease, until another worker has it.")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--stamps", type=Path, help="inside of the job")
    args = options.parse_args()
    if args.stamps:
        return inside(args.stamps)
    prepare()
    samples = Samples("data_silent")
    for _ in range(args.rounds):
        once(samples, args.bin)
    finish()
    print(samples.summary("silent node"))
    return None


if __name__ == "__main__":
    main()
