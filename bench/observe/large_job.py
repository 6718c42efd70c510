"""How long does the page of 10,000 ranks take, and how much memory does it cost the master?

    ninja -C build/release paceline bench_training_fleet
    .venv/bin/python -m bench.observe.large_job --rounds 5      # two minutes; needs chromium

A real master has 1,250 agents of eight ranks each. The agents are light (bench/fleet/fleet.cc):
real streams and heartbeats with the ranks' step times, and no ranks. One rank's own work is 10 %
longer than that of its peers. After `--train` seconds a browser opens the page by the link of
`paceline open`, again and again, each time as a new visitor with nothing cached.

- `first screen`: from the visit of the link until the screen has the state, the sentence, the
  goodput, the heat strip and the slow rank by its name, all without scrolling.
- `memory`: the master's resident memory after all visits, and with 32 viewers that read the event
  stream, beyond that before the first visit.

The machine's other load is in the times: the line has it. Nobody else's page runs beside: Ray's
dashboard, the closest, needs a Ray cluster of that size.
"""

import http.client
import os
import shutil
import signal
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from bench.fleet.agents import BUILD, Case, make_run_dir, peak_rss_mib, wait_for_address
from bench.harness import Samples, finish, parser, prepare
from bench.observe.cost import session_of

AGENTS, RANKS, SLOW_RANK = 1250, 8, 4711
VIEWERS = 32
WITHIN_MS = 60_000
SEEN = f"""() => {{
  const text = (selector) => document.querySelector(selector)?.textContent ?? "";
  const strip = document.querySelector("#heat-strip canvas");
  const box = document.querySelector("#slowest")?.getBoundingClientRect();
  return box !== undefined && box.bottom <= innerHeight && strip !== null && strip.width > 0 &&
    text(".state") !== "" && text(".sentence") !== "" &&
    document.querySelector(".goodput-words .bar") !== null &&
    text("#slowest").includes("rank {SLOW_RANK} ");
}}"""


def rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"process {pid} has ended")


def link_of(binary: Path, run_dir: Path) -> str:
    command = [str(binary), "open", "--job", str(run_dir)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def visit(browser: Browser, link: str, shot: Path | None) -> dict[str, float]:
    """Seconds until the first screen, and the CPU seconds of the page's own thread."""
    context = browser.new_context(viewport=ViewportSize(width=1280, height=720))
    page = context.new_page()
    client = context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = time.monotonic()
    page.goto(link)
    page.wait_for_function(SEEN, timeout=WITHIN_MS)
    took = time.monotonic() - began
    told: list[dict[str, Any]] = client.send("Performance.getMetrics")["metrics"]
    cpu = next(one["value"] for one in told if one["name"] == "TaskDuration")
    if shot is not None:
        page.screenshot(path=shot)
    context.close()
    return {"seconds": took, "page_cpu": cpu}


class Viewers:
    """Readers of the page's event stream, each with a session of its own."""

    def __init__(self, binary: Path, run_dir: Path, count: int) -> None:
        self.feeds: list[http.client.HTTPConnection] = []
        for _ in range(count):
            address, session = session_of(binary, run_dir)
            feed = http.client.HTTPConnection(address, timeout=30)
            feed.request("GET", "/api/feed", headers={"Authorization": f"Bearer {session}"})
            if (status := feed.getresponse().status) != 200:
                raise SystemExit(f"a viewer was answered with {status}")
            self.feeds.append(feed)
            for path in ("/api/page", "/api/heat"):
                look = http.client.HTTPConnection(address, timeout=30)
                look.request("GET", path, headers={"Authorization": f"Bearer {session}"})
                look.getresponse().read()
                look.close()


def main() -> None:
    options = parser("The page of a real master with 1,250 agents of eight ranks, in a browser.")
    options.add_argument("--rounds", type=int, default=5, help="visits")
    options.add_argument("--build", type=Path, default=BUILD, help="build tree of both binaries")
    options.add_argument("--train", type=float, default=60, help="seconds before the first visit")
    options.add_argument("--shot", type=Path, help="a picture of the first screen")
    args = options.parse_args()
    prepare()
    samples = Samples("large_job")
    binary = args.build / "src" / "paceline" / "cli"
    run_dir = make_run_dir(Case(agents=AGENTS, connections=0))
    with (run_dir / "master.log").open("wb") as log:
        command = [str(binary / "paceline"), "master", "--run-dir", str(run_dir)]
        command += ["--listen", "127.0.0.1:0"]
        master = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    fleet = None
    try:
        address = wait_for_address(run_dir, master)
        command = [str(args.build / "bench" / "bench_training_fleet"), address]
        command += [str(run_dir / "token"), *map(str, (AGENTS, RANKS, SLOW_RANK))]
        fleet = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert fleet.stdout is not None
        if fleet.stdout.readline() != "joined\n":
            raise SystemExit((run_dir / "master.log").read_text()[-1500:])
        time.sleep(args.train)
        before = rss_mib(master.pid)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            for number in range(args.rounds):
                shot = args.shot if number == 0 else None
                seen = visit(browser, link_of(binary / "paceline", run_dir), shot)
                load = os.getloadavg()[0]
                samples.add("first screen", seen["seconds"], cpu=seen["page_cpu"], load=load)
            browser.close()
        visited = rss_mib(master.pid)
        viewers = Viewers(binary, run_dir, VIEWERS)
        time.sleep(30)
        watched = rss_mib(master.pid)
        peak = peak_rss_mib(master.pid)
        samples.add("memory", visited - before, before=before, peak=peak, unit="MiB")
        samples.add(f"memory, {len(viewers.feeds)} viewers", watched - before, unit="MiB")
        if fleet.poll() is not None or master.poll() is not None:
            raise SystemExit((run_dir / "master.log").read_text()[-1500:])
    finally:
        for process in (fleet, master):
            if process is not None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        shutil.rmtree(run_dir, ignore_errors=True)
    screens = samples.of("first screen")
    print(
        f"large_job: first screen of {AGENTS * RANKS} ranks p50 "
        f"{statistics.median(screens):.2f} s (most {max(screens):.2f}, {len(screens)} visits); "
        f"master {before:.0f} MiB before, "
        f"{visited - before:+.1f} after the visits, "
        f"{watched - before:+.1f} with {VIEWERS} viewers, peak {peak:.0f}"
    )
    finish()


if __name__ == "__main__":
    main()
