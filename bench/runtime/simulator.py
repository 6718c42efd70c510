"""How fast is the simulator?

    .venv/bin/python -m bench.runtime.simulator --rounds 7

Every number is simulated time over CPU time of one core: 1,000 nodes of two ranks that train
undisturbed, with heartbeats credited and with each one simulated, and small clusters under faults.
A small cluster counts only when its checks all pass. There is no peer.
"""

import json
import re
import statistics
import subprocess
from pathlib import Path
from typing import Any

from bench.harness import Samples, machine, parser

NUMBER = r"([\d.]+)"
CALM = re.compile(
    rf"simulator +{NUMBER} nodes, heartbeats (\w+) +\d+ x real time +"
    rf"\({NUMBER} s of CPU for {NUMBER} s, {NUMBER} tasks"
)
SEEDS = re.compile(
    rf"simulator +small clusters .*\({NUMBER} s of CPU for {NUMBER} seeds, .* {NUMBER} failed\)"
)


def measure(binary: Path, seeds: int) -> list[tuple[str, float, dict[str, Any]]]:
    """One run: what was simulated, its CPU seconds, and how many times real time or seeds."""
    command = [str(binary), "sim", "--bench", "--seeds", str(seeds)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: list[tuple[str, float, dict[str, Any]]] = []
    for nodes, kind, spent, simulated, tasks in CALM.findall(text):
        rate = float(simulated) / float(spent)
        row = {"nodes": int(nodes), "tasks": int(tasks), "times_real_time": round(rate, 1)}
        found.append((kind, float(spent), row))
    for spent, count, failed in SEEDS.findall(text):
        if int(failed) > 0:
            raise SystemExit(f"{failed} of {count} seeds failed:\n{text}")
        rate = float(count) / float(spent) * 600
        row = {"seeds": int(count), "seeds_in_10_minutes": round(rate)}
        found.append(("seeds", float(spent), row))
    if len(found) != 3:
        raise SystemExit(f"this output was not understood:\n{text}")
    return found


def main() -> None:
    options = parser("Simulated time over CPU time of one core.")
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--seeds", type=int, default=2_000, help="small clusters in a round")
    args = options.parse_args()
    samples = Samples("simulator")
    rates: dict[str, list[float]] = {"credited": [], "each": [], "seeds": []}
    print(machine())
    for _ in range(args.rounds):
        for system, seconds, row in measure(args.bin / "paceline", args.seeds):
            samples.add(system, seconds, **row)
            rates[system].append(row.get("times_real_time", row.get("seeds_in_10_minutes", 0)))
    middle = {name: statistics.median(values) for name, values in rates.items()}
    worst = {name: min(values) for name, values in rates.items()}
    print(
        f"simulator: 1,000 nodes, heartbeats credited {middle['credited']:.0f} times real time "
        f"(worst {worst['credited']:.0f}) | each simulated {middle['each']:.0f} "
        f"(worst {worst['each']:.0f}) | {middle['seeds']:.0f} clean seeds in 10 minutes "
        f"(worst {worst['seeds']:.0f}) | n {args.rounds}, raw {json.dumps(str(samples.path.name))}"
    )


if __name__ == "__main__":
    main()
