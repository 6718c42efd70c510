"""The page of `paceline report` in each state. The screenshots are in build/report/web."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pages
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, ViewportSize, expect

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "build" / "report" / "web"
SCREEN = ViewportSize(width=1280, height=720)
Scheme = Literal["light", "dark"]
TITLES = {
    "running": "▶ running – llama8b",
    "stale": "▶ running – llama8b",
    "away": "? master away – llama8b",
    "hanging": "▶ running, 1 open incident – llama8b",
    "recovering": "⏸ waiting, 1 open incident – llama8b",
    "nothing_yet": "⏸ waiting – llama8b",
    "finished": "✔ finished – llama8b",
    "stopped": "◼ stopped – llama8b",
    "failed": "✖ failed – llama8b",
}


class Opener:
    """Opens pages, and fails for each message of the browser and each request of a page."""

    def __init__(self, browser: Browser, folder: Path, written: str) -> None:
        self.browser = browser
        self.folder = folder
        self.written = written
        self.complaints: list[str] = []

    def open(self, state: str, scheme: Scheme = "light", view: str = "",
             screen: ViewportSize = SCREEN) -> Page:
        path = self.folder / f"{state}.html"
        path.write_text(pages.with_data(self.written, pages.STATES[state]()))
        return self.open_file(path, scheme, view, screen)

    def open_file(self, path: Path, scheme: Scheme = "light", view: str = "",
                  screen: ViewportSize = SCREEN) -> Page:
        context = self.browser.new_context(viewport=screen, color_scheme=scheme)
        page = context.new_page()
        page.clock.install(time=pages.NOW)
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.complaints.append(request.url)
                if not request.url.startswith(path.as_uri()) else None)
        page.goto(path.as_uri() + view)
        expect(page.locator("header.top")).to_be_visible()
        return page


@pytest.fixture
def opener(browser: Browser, reported: Path, tmp_path: Path) -> Iterator[Opener]:
    made = Opener(browser, tmp_path, reported.read_text())
    yield made
    assert made.complaints == []
    for context in browser.contexts:
        context.close()


def violations(page: Page) -> list[str]:
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['html']}" for one in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", pages.STATES)
def test_each_state_is_readable(opener: Opener, state: str, scheme: Scheme) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page = opener.open(state, scheme)
    page.screenshot(path=SHOTS / f"{state}-{scheme}.png")
    assert page.title() == TITLES.get(state, page.title())
    assert violations(page) == []
    page.get_by_role("link", name="Incidents (").click()
    expect(page.locator("#incidents")).to_be_visible()
    page.screenshot(path=SHOTS / f"{state}-incidents-{scheme}.png")
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("state", ["running", "hanging", "nothing_yet", "large"])
@pytest.mark.parametrize("view", ["Heat map", "Topology"])
def test_each_view_is_readable(opener: Opener, state: str, view: str, scheme: Scheme) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page = opener.open(state, scheme)
    page.get_by_role("link", name=view).click()
    expect(page.get_by_role("heading", name=view)).to_be_visible()
    page.screenshot(path=SHOTS / f"{state}-{view.split()[0].lower()}-{scheme}.png")
    assert violations(page) == []


@pytest.mark.parametrize("state", ["running", "failed", "recovering", "large"])
def test_the_first_screen_has_all_in_order(opener: Opener, state: str) -> None:
    page = opener.open(state)
    tops: list[float] = []
    for place in (".top", "#overview .sentence", "#goodput", "#timeline", "#checkpoints"):
        box = page.locator(place).bounding_box()
        assert box is not None and box["y"] + box["height"] <= SCREEN["height"], place
        tops.append(box["y"])
    assert tops == sorted(tops)
    size = "e => getComputedStyle(e).fontSize"
    assert page.locator("#overview .sentence").evaluate(size) == "20px"
    expect(page.locator("#open-incidents")).to_be_in_viewport(ratio=1)


def test_a_failed_job_names_the_cause_first(opener: Opener) -> None:
    page = opener.open("failed")
    assert "ValueError: bad batch" in page.locator("#overview .sentence").inner_text()


def test_no_open_incident_is_said(opener: Opener) -> None:
    page = opener.open("running")
    assert page.locator("#open-incidents .none").inner_text() == "none"


def test_old_data_of_a_running_job_is_stale(opener: Opener) -> None:
    assert opener.open("stale").locator("#age").inner_text() == "stale: data 15.0 min old"
    assert opener.open("finished").locator("#age").inner_text().startswith("ended")


def test_a_lost_host_of_many_has_its_own_lane(opener: Opener) -> None:
    box = opener.open("large").locator("#timeline canvas").bounding_box()
    assert box is not None and box["height"] == 16 + 2 * 20 + 20


def test_a_hang_is_told_from_where_it_began(opener: Opener) -> None:
    page = opener.open("hanging")
    expect(page.locator("#open-incidents")).to_contain_text("lasts for 2.0 min already")
    expect(page.locator("#open-incidents")).to_contain_text("lasted 1.5 min")
    # The row of flags: a hang's bar is red from its begin on, and the others have a flag alone.
    red = """canvas => {
      const scale = canvas.width / canvas.clientWidth;
      const row = canvas.getContext("2d").getImageData(0, Math.round(3 * scale), canvas.width, 1);
      let count = 0;
      for (let i = 0; i < row.data.length; i += 4) count += row.data[i + 3] > 0 ? 1 : 0;
      return count / scale;
    }"""
    flags = page.locator("#timeline canvas").evaluate(red)
    width = page.locator("#timeline canvas").evaluate("canvas => canvas.clientWidth") - 96 - 8
    assert flags > width * 210 / 1800  # 120 s and 90 s of the half hour
    assert opener.open("running").locator("#timeline canvas").evaluate(red) < 20


def test_the_grid_says_what_each_rank_is(opener: Opener) -> None:
    page = opener.open("hanging", view="#topology")
    expect(page.locator("#topology")).to_contain_text("2 pipeline stages × 4 replicas × 2 tensor")
    page.locator("#topology canvas").focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    said = page.locator("#topology [aria-live]").inner_text()
    assert said == "rank 5 on node1 (stage 1, replica 3, tensor 2), named in the hang"


def test_a_file_says_that_it_has_no_heat_map(opener: Opener) -> None:
    page = opener.open("running", view="#heat")
    expect(page.locator("#heat")).to_contain_text("A file has no heat map")
    assert page.locator("#heat-strip").count() == 0


def test_text_of_the_job_stays_text(opener: Opener) -> None:
    page = opener.open("hostile")
    assert page.locator("img, b bdi b").count() == 0
    assert page.title().startswith("✖ failed – <img")
    text = page.locator("body").inner_text()
    assert "\x1b" not in text and "\u202e" not in text
    assert "\\x1b[31mred \\u{202e}gnp.exe" in text


def test_keys_reach_everything(opener: Opener) -> None:
    page = opener.open("running")
    page.locator("#timeline canvas").focus()
    said = page.locator("#timeline [aria-live]")
    page.keyboard.press("ArrowLeft")
    assert "productive for" in said.inner_text()
    page.keyboard.press("ArrowLeft")
    assert "redone for 1.0 min" in said.inner_text()
    link = page.locator("#open-incidents a").first
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("article").first).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy as text")).to_be_focused()


def test_twice_as_large_it_needs_no_sideways_scrolling(opener: Opener) -> None:
    page = opener.open("failed", screen=ViewportSize(width=640, height=360))
    assert page.evaluate("document.documentElement.scrollWidth") <= 640


def test_a_real_report_follows_its_schema(opener: Opener, reported: Path) -> None:
    text = reported.read_text()
    assert len(text) < 300_000
    found = re.search(r'id="data">(.*?)</script>', text, flags=re.DOTALL)
    assert found is not None
    data = json.loads(found[1])
    schema = json.loads((ROOT / "docs" / "schemas" / "page.json").read_text())
    jsonschema.validate(data, schema)
    for state in pages.STATES.values():
        jsonschema.validate(state(), schema)
    SHOTS.mkdir(parents=True, exist_ok=True)
    page = opener.open_file(reported, view="#incidents")
    page.screenshot(path=SHOTS / "real-incidents.png", full_page=True)
    expect(page.locator("article").first).to_contain_text("ValueError: bad batch")
    assert page.title().startswith("✖ failed")
