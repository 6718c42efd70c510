// The page of a running job: it follows the master's feed, and gets new data when events came.

import {Refused, askForData, askForHeat, enter, readFeed} from "./feed.js";
import {heatOfPage, noHeat, readHeat} from "./heat.js";
import {showPage, tellAge} from "./main.js";
import {factsText} from "./overview.js";
import {isOver, titleOf} from "./state.js";
import {durationText, element} from "./text.js";

/** @typedef {import("./data.js").Page} Page */

const GATHER_MS = 200;    // events that come together are one change
const RENEW_MS = 15_000;  // goodput and ages change without events
const HEAT_MS = 10_000;   // the heat map has a new column
const RETRY_MS = 1000;
const REFUSED_MS = 5000;  // too many viewers, or an overloaded master
const STILL_MS = 7000;    // the feed beats each 2 s

const follower = {
  /** @type {Page | null} */ page: null,
  heardAt: Date.now(),
  isAway: false,
  isWanted: false,
  isAsking: false,
  /** @type {AbortController} */ cut: new AbortController(),
};

/** @param {number} ms */
function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

/** The sentence about the link to the master; "" for none. @param {string} text */
function tellLink(text) {
  const shown = document.getElementById("link");
  if (shown === null || shown.textContent === text) return;
  shown.textContent = text;
  shown.hidden = text === "";
}

function tellAway() {
  const page = follower.page;
  if (page === null) {
    tellLink("The master does not answer yet. This page goes on as soon as it does.");
    return;
  }
  const age = durationText(Math.max(0, Date.now() / 1000 - page.data_at));
  tellLink(`The master is away: the data is ${age} old. The ranks may train on without it. This `
    + "page goes on when a master is back; if the job has ended, `paceline report` shows its end.");
}

/** New data waits for the end of a selection of text, which it would undo. */
function isSelecting() {
  const selection = document.getSelection();
  return selection !== null && !selection.isCollapsed;
}

/** @param {boolean} isAway */
function setAway(isAway) {
  const page = follower.page;
  const hasChanged = follower.isAway !== isAway;
  follower.isAway = isAway;
  if (page !== null && isAway && page.is_live) {
    page.is_live = false;
    showPage(page);
  }
  if (isAway) tellAway();
  else if (hasChanged) tellLink("");
}

async function renew() {
  if (follower.isAsking) {
    follower.isWanted = true;
    return;
  }
  follower.isAsking = true;
  try {
    do {
      follower.isWanted = false;
      const page = await askForData(follower.cut.signal);
      while (isSelecting()) await pause(GATHER_MS);
      follower.page = page;
      showPage(page);
      if (isOver(page)) follower.cut.abort();
    } while (follower.isWanted && !isOver(/** @type {Page} */ (follower.page)));
  } finally {
    follower.isAsking = false;
  }
}

/** The page stays as it is if the master has no heat map for it now. */
async function renewHeat() {
  const former = heatOfPage.now ?? noHeat();
  try {
    heatOfPage.now = readHeat(await askForHeat(former.version, follower.cut.signal), former);
  } catch {
    return;
  }
  document.dispatchEvent(new Event("heatshown"));
}

let waiting = 0;

/** @param {number} ms */
function want(ms) {
  if (waiting !== 0) return;
  waiting = setTimeout(() => {
    waiting = 0;
    renew().catch(() => undefined);  // the feed breaks off, too, and begins anew
  }, ms);
}

/** @param {{at: number, seq: number, phase: string, step: number | null,
 *   steps_per_second: number | null}} pulse */
function takePulse(pulse) {
  const page = follower.page;
  if (page === null || isOver(page)) return;
  page.status.job.age_seconds += Math.max(0, pulse.at - page.data_at);
  page.data_at = pulse.at;
  page.status.job.step = pulse.step ?? page.status.job.step;
  page.status.job.steps_per_second = pulse.steps_per_second;
  const facts = document.getElementById("facts");
  if (facts !== null && !isSelecting()) facts.textContent = factsText(page);
  if (pulse.seq > page.seq || pulse.phase !== page.status.job.phase) want(0);
}

/** @param {string} kind @param {string} data */
function takeEvent(kind, data) {
  follower.heardAt = Date.now();
  tellLink("");
  if (kind === "pulse") takePulse(JSON.parse(data));
  if (kind === "record" && JSON.parse(data).seq > (follower.page?.seq ?? 0)) want(GATHER_MS);
  if (kind === "snapshot" || kind === "end") want(0);
}

/** Follows the master until the feed breaks off or the job is over. */
async function follow() {
  follower.cut = new AbortController();
  follower.heardAt = Date.now();
  await renew();
  setAway(false);
  void renewHeat();
  const page = /** @type {Page} */ (follower.page);
  if (!isOver(page)) await readFeed(page.seq, follower.cut.signal, takeEvent);
}

/** Each second: a feed that is still is cut off, so that the page tells it and tries again. */
function watch() {
  if (follower.page !== null) {
    tellAge(follower.page);
    document.title = titleOf(follower.page);
  }
  if (follower.isAway) tellAway();
  if (Date.now() - follower.heardAt > STILL_MS) follower.cut.abort();
}

async function start() {
  heatOfPage.now = noHeat();
  document.body.append(element("p", {id: "link", role: "status", class: "link"}, "Connecting …"),
    element("main", {}, element("h1", {class: "sentence view"}, "The page of a job of paceline")));
  const ticks = setInterval(watch, 1000);
  const renewals = setInterval(() => {
    if (!document.hidden && !follower.isAway) want(0);
  }, RENEW_MS);
  const heats = setInterval(() => {
    if (!document.hidden && !follower.isAway) void renewHeat();
  }, HEAT_MS);
  for (let isEntered = false; follower.page === null || !isOver(follower.page);) {
    let retry = RETRY_MS;
    try {
      if (!isEntered) await enter();
      isEntered = true;
      await follow();
      if (!isOver(/** @type {Page} */ (follower.page))) setAway(true);
    } catch (error) {
      if (error instanceof Refused) {
        tellLink(error.message);
        if (error.isFinal) break;
        retry = REFUSED_MS;
      } else if (follower.page === null || !isOver(follower.page)) {
        setAway(true);
      }
    }
    if (follower.page === null || !isOver(follower.page)) await pause(retry);
  }
  clearInterval(renewals);
  clearInterval(heats);
  if (follower.page === null || !isOver(follower.page)) {
    clearInterval(ticks);
    return;
  }
  tellLink("The job has ended, and this page no longer changes. `paceline report` keeps it.");
}

start();
