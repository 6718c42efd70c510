// The state of the job: a word, a shape that needs no colour, and the window's title.

import {drawing, durationText, visible} from "./text.js";

/** @typedef {import("./data.js").Page} Page */

const STALE_AFTER = 60;

/** @type {Record<string, {word: string, sign: string, path: string, kind: string}>} */
const STATES = {
  running: {word: "running", sign: "▶", path: "M4 2 L14 8 L4 14 Z", kind: "good"},
  starting: {word: "starting", sign: "◔", path: "M8 2 A6 6 0 1 0 14 8 L8 8 Z", kind: "busy"},
  waiting: {word: "waiting", sign: "⏸", path: "M3 2 H7 V14 H3 Z M9 2 H13 V14 H9 Z", kind: "busy"},
  stopping: {word: "stopping", sign: "◼", path: "M3 3 H13 V13 H3 Z M6 6 V10 H10 V6 Z", kind: "busy"},
  stopped: {word: "stopped", sign: "◼", path: "M3 3 H13 V13 H3 Z", kind: "calm"},
  finished: {word: "finished", sign: "✔", path: "M2 8 L4 6 L7 9 L13 3 L15 5 L7 13 Z", kind: "good"},
  failed: {
    word: "failed", sign: "✖",
    path: "M4 2 L8 6 L12 2 L14 4 L10 8 L14 12 L12 14 L8 10 L4 14 L2 12 L6 8 L2 4 Z", kind: "bad",
  },
  away: {
    word: "master away", sign: "?", path: "M8 1 L15 8 L8 15 L1 8 Z M8 4 L4 8 L8 12 L12 8 Z",
    kind: "bad",
  },
};

/** @param {Page} page */
export function isOver(page) {
  return page.status.job.phase === "finished";
}

/** @param {Page} page */
export function stateOf(page) {
  if (!page.is_live && !isOver(page)) return STATES.away;
  return STATES[page.state] ?? STATES.waiting;
}

/** @param {Page} page */
export function stateShape(page) {
  return drawing("svg", {viewBox: "0 0 16 16", width: "16", height: "16", "aria-hidden": "true"},
    drawing("path", {d: stateOf(page).path, "fill-rule": "evenodd", fill: "currentColor"}));
}

/**
 * How old the data is, and whether that is too old to trust. The data of a job that is over does
 * not age.
 * @param {Page} page
 * @param {number} now seconds since 1970
 */
export function ageOf(page, now) {
  const age = Math.max(0, now - page.data_at);
  if (isOver(page)) return {text: `ended ${durationText(age)} ago`, isStale: false};
  const isStale = age > STALE_AFTER;
  return {text: `${isStale ? "stale: " : ""}data ${durationText(age)} old`, isStale};
}

/** "✖ failed – llama8b" @param {Page} page */
export function titleOf(page) {
  const state = stateOf(page);
  const open = page.incidents.filter((incident) => incident.is_open).length;
  const more = open === 0 ? "" : `, ${open} open incident${open === 1 ? "" : "s"}`;
  return `${state.sign} ${state.word}${more} – ${visible(page.name || page.job)}`;
}
