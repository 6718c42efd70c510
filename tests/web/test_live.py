"""The live page of a real job in a browser: a kill, a change of masters, the end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
import pytest
from axe_playwright_python.sync_playwright import Axe
from live_job import Live, eventually
from playwright.sync_api import Browser, Page, Route, ViewportSize, expect

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "build" / "report" / "web"
SCREEN = ViewportSize(width=1280, height=720)
PATIENT_MS = 60_000


def shot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"live-{name}.png")
    assert Axe().run(page).response["violations"] == []


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Fails for an error of the script, and for what its policy forbids."""
    context = browser.new_context(viewport=SCREEN)
    complaints: list[str] = []
    made = context.new_page()
    made.set_default_timeout(PATIENT_MS)
    expect.set_options(timeout=PATIENT_MS)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on("dialog", lambda dialog: complaints.append(dialog.message))
    made.on("console", lambda message: complaints.append(message.text)
            if "Content Security Policy" in message.text else None)
    yield made
    context.close()
    expect.set_options(timeout=5000)
    assert complaints == []


def test_a_job_is_followed_from_training_to_its_end(live: Live, page: Page) -> None:
    url = live.link()
    page.goto(url)
    expect(page.locator(".state")).to_have_text("running")
    assert "code=" not in page.url
    facts = page.locator("#facts").inner_text()
    assert "step" in facts
    expect(page.locator("#facts")).not_to_have_text(facts)  # it counts on
    expect(page.locator("#open-incidents .none")).to_have_text("none")
    shot(page, "training")
    page.evaluate("window.isTheSame = true")

    os.kill(eventually(lambda: live.rank_pid(1), "rank 1 trains"), signal.SIGKILL)
    cause = page.locator("#open-incidents a", has_text="SIGKILL")
    expect(cause).to_be_visible()
    expect(page.locator("#facts")).to_contain_text("world 2 of 2 ranks")
    expect(page.locator(".state")).to_have_text("running")
    shot(page, "after-a-kill")
    cause.click()
    expect(page.locator("article").first).to_contain_text("killed by SIGKILL")
    shot(page, "incident")

    eventually(lambda: live.rank_pid(1), "rank 1 trains again")
    (live.folder / "raise").touch()
    expect(page.locator("article").first).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("main img").count() == 0
    text = page.locator("body").inner_text()
    assert "\x1b" not in text and "\u202e" not in text
    page.get_by_role("link", name="Overview").click()

    # Without a master: the launcher stands still, so that no next one comes.
    eventually(lambda: live.rank_pid(1), "rank 1 trains again")
    live.launcher.send_signal(signal.SIGSTOP)
    os.kill(live.master_pid(), signal.SIGKILL)
    expect(page.locator("#link")).to_contain_text("The master is away: the data is")
    expect(page.locator(".state")).to_have_text("master away")
    shot(page, "master-away")
    live.launcher.send_signal(signal.SIGCONT)
    expect(page.locator("#link")).to_be_hidden()
    expect(page.locator(".state")).to_have_text("running")
    shot(page, "master-back")

    (live.folder / "done").touch()
    expect(page.locator(".state")).to_have_text("finished")
    expect(page.locator("#link")).to_contain_text("The job has ended")
    assert page.evaluate("window.isTheSame")  # never loaded again
    shot(page, "finished")


def test_a_used_link_says_how_to_get_a_new_one(live: Live, page: Page, browser: Browser) -> None:
    url = live.link()
    page.goto(url)
    expect(page.locator(".state")).to_have_text("running")
    page.reload()  # the session is the tab's
    expect(page.locator(".state")).to_have_text("running")
    other = browser.new_context(viewport=SCREEN).new_page()
    other.goto(url)
    expect(other.locator("#link")).to_contain_text("`paceline open` prints a new one")
    shot(other, "used-link")
    assert other.locator("#overview").count() == 0
    other.context.close()


def test_a_master_that_stands_still_is_told(live: Live, page: Page) -> None:
    page.goto(live.link())
    expect(page.locator(".state")).to_have_text("running")
    master = live.master_pid()
    os.kill(master, signal.SIGSTOP)
    try:
        expect(page.locator("#link")).to_contain_text("The master is away")
        shot(page, "master-stopped")
    finally:
        os.kill(master, signal.SIGCONT)
    expect(page.locator("#link")).to_be_hidden()
    expect(page.locator(".state")).to_have_text("running")


def test_the_heat_map_of_a_real_job(live: Live, page: Page) -> None:
    page.goto(live.link())
    expect(page.locator("#heat-strip")).to_be_visible()
    # A column ends each 10 s, and the ranks of this script tell their times each 8 steps.
    expect(page.locator("#slowest")).not_to_have_text("No rank has told its times yet.")
    page.get_by_role("link", name="Heat map").click()
    expect(page.locator("#heat table")).to_contain_text("node0")
    shot(page, "heat")


def test_one_slow_rank_of_ten_thousand_is_seen_on_the_first_screen(live: Live,
                                                                   page: Page) -> None:
    """The data is made; the page, its session and its feed are those of a real master."""
    data = pages.large()
    later = time.time() - pages.NOW

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: moved(one) for name, one in value.items()}
        if isinstance(value, list):
            return [moved(one) for one in value]
        return value + later if isinstance(value, float) and value > 1e9 else value

    def answer_page(route: Route) -> None:
        route.fulfill(json=moved(data))

    def answer_heat(route: Route) -> None:
        route.fulfill(body=pages.heat(10_000, pages.SLOW_RANK, now=time.time()),
                      content_type="application/octet-stream")

    page.route("**/api/page", answer_page)
    page.route("**/api/heat", answer_heat)
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(live.link())
    slowest = page.locator("#slowest")
    expect(slowest).to_contain_text("rank 4711 on node588, 10 % longer than its peers")
    expect(slowest).to_be_in_viewport(ratio=1)
    expect(page.locator("#open-incidents")).to_be_in_viewport(ratio=1)
    metrics = {one["name"]: one["value"]
               for one in client.send("Performance.getMetrics")["metrics"]}
    # CPU time of the page's thread: what was measured is told, and no test fails by it.
    print(f"first screen of 10,000 ranks: {metrics['TaskDuration']:.2f} s")
    # Its rows are darker than all others in the newest columns.
    rows = page.locator("#heat-strip canvas").evaluate("""canvas => {
      const scale = canvas.width / canvas.clientWidth;
      const x = canvas.width - Math.round(30 * scale);
      const column = canvas.getContext("2d").getImageData(x, 0, 1, canvas.height).data;
      return Array.from({length: 16}, (_, row) => {
        const y = Math.floor((row + 0.5) * canvas.height / 16);
        return column[4 * y] + column[4 * y + 1] + column[4 * y + 2];
      });
    }""")
    assert rows.index(min(rows)) == pages.SLOW_RANK * 16 // 10_000
    assert sorted(rows)[1] - min(rows) > 100
    shot(page, "ten-thousand")
    page.get_by_role("link", name="Heat map").click()
    expect(page.locator("#heat tbody tr").first).to_contain_text("4711")
    page.get_by_role("button", name="by slowness").click()
    shot(page, "ten-thousand-heat")
    page.get_by_role("link", name="Topology").click()
    shot(page, "ten-thousand-topology")
