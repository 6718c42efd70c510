"""A node is killed, or goes silent: how long until every rank of the next world has done a step?

    .venv/bin/python -m bench.runtime.node_loss --rounds 10 --peer-rounds 3

Ours: three nodes of two ranks and a spare on this machine; the last node in the world is killed
(its agent and its ranks at once) or frozen by SIGSTOP. torchrun has no spares, so its job is
`--nnodes 2:3` with the c10d rendezvous: three agents, one is killed or frozen, and the two others
must go on. The node with the store is spared, since losing it would end that job.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.harness import (
    Job,
    Samples,
    System,
    descendants,
    finish,
    free_port,
    paceline,
    parser,
    prepare,
    send,
    torchrun,
)

NODES, RANKS_EACH = 3, 2
Fault = signal.Signals  # SIGKILL or SIGSTOP, for a whole node


def fail_with(job: Job, name: str) -> SystemExit:
    print(job.tail(), file=sys.stderr)
    return SystemExit(f"{name} did not start")


def strike(
    samples: Samples, name: str, job: Job, pids: list[int], fault: Fault, **how: int
) -> None:
    """Hit all processes of a node at once and wait for the first step of the next world."""
    struck_at = time.monotonic()
    for pid in pids:
        send(pid, fault)
    ranks = job.first_steps(ranks=range(how["ranks"]), after=struck_at, within=how["cap"])
    seconds = max(stamp.at for stamp in ranks.values()) - struck_at if ranks else None
    samples.add(name, seconds, cap=how["cap"], ranks=how["ranks"])
    for pid in pids:
        send(pid, signal.SIGCONT)


def lose_ours(samples: Samples, system: System, fault: Fault, *, bin_dir: Path) -> None:
    world = NODES * RANKS_EACH
    with Job([system]) as job:
        if job.first_steps(ranks=range(world), after=job.started, within=180) is None:
            raise fail_with(job, system.name)
        time.sleep(1)
        command = [bin_dir / "paceline", "status", "--json", "--run-dir", job.dir / "run"]
        status = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        last = next(
            node
            for node in status["nodes"]
            if any(rank["rank"] == world - 1 and rank["exit"] is None for rank in node["ranks"])
        )
        pids = [last["agent_pid"], *(rank["pid"] for rank in last["ranks"])]
        strike(samples, system.name, job, pids, fault, ranks=world, cap=60)


def lose_peer(samples: Samples, system: System, fault: Fault, *, cap: int) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    flags = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint, "--rdzv-id", "bench"]
    flags += ["--nnodes", f"{NODES - 1}:{NODES}", "--nproc-per-node", str(RANKS_EACH)]
    flags += ["--max-restarts", "1000"]
    node = System(name=system.name, command=[*system.command, *flags], env=system.env)
    with Job([node] * NODES) as job:
        ranks = job.first_steps(ranks=range(NODES * RANKS_EACH), after=job.started, within=240)
        if ranks is None:
            raise fail_with(job, system.name)
        time.sleep(1)
        store = [process.pid for process in job.processes if listens(process.pid, endpoint)]
        victim = next(p.pid for p in reversed(job.processes) if p.pid not in store)
        pids = [victim, *descendants(victim)]
        strike(samples, system.name, job, pids, fault, ranks=(NODES - 1) * RANKS_EACH, cap=cap)


def listens(pid: int, endpoint: str) -> bool:
    """Whether this process holds the listening socket of the rendezvous store."""
    port = f"{int(endpoint.rpartition(':')[2]):04X}"
    inodes: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            row = line.split()
            if row[1].endswith(f":{port}") and row[3] == "0A":
                inodes.add(f"socket:[{row[9]}]")
    links = Path(f"/proc/{pid}/fd").iterdir()
    return any(os.path.realpath(link).rpartition("/")[2] in inodes for link in links)


def main() -> None:
    options = parser("A node is killed or frozen until the next world's first step.")
    options.add_argument("--rounds", type=int, default=10)
    options.add_argument("--peer-rounds", type=int, default=3)
    options.add_argument("--cap", type=int, default=240, help="seconds granted to the peer")
    args = options.parse_args()
    prepare()
    samples = Samples("node_loss")
    shape = ("--local-nodes", str(NODES), "--nproc-per-node", str(RANKS_EACH), "--spares", "1")
    # The lost machine does not come back while the spare is timed.
    shape = (*shape, "--replace-nodes", "off")
    flags = (*shape, "--run-dir", "{run_dir}", "--keep-warm", "30m")
    quick = ("--rdzv-conf", "last_call_timeout=1")
    names: list[str] = []
    for number in range(max(args.rounds, args.peer_rounds)):
        for word, fault in (("killed", signal.SIGKILL), ("frozen", signal.SIGSTOP)):
            ours = paceline(args.bin, *flags, name=f"paceline {word}")
            last_call = torchrun(
                args.bin, *quick, name=f"torchrun last call 1 s {word}", fixed=True
            )
            shipped = torchrun(args.bin, name=f"torchrun as shipped {word}", fixed=False)
            names += [s.name for s in (ours, last_call, shipped) if s.name not in names]
            if number < args.rounds and args.systems in ours.name:
                lose_ours(samples, ours, fault, bin_dir=args.bin)
            for peer in (last_call, shipped):
                if number < args.peer_rounds and args.systems in peer.name:
                    lose_peer(samples, peer, fault, cap=args.cap)
    finish()
    print(samples.summary(*names))


if __name__ == "__main__":
    main()
