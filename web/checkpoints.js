// The tiers of checkpoints, with what a restart would find in each.

import {card, countText, durationText, element, foreign, table} from "./text.js";

/** @typedef {import("./data.js").Page} Page */

/** @param {number | null} step */
function stepText(step) {
  return step === null ? "none yet" : `step ${countText(step)}`;
}

/** How far a tier lies behind. @param {number | null} step @param {number | null} now */
function behindText(step, now) {
  if (step === null || now === null) return "–";
  const behind = Math.max(0, now - step);
  return behind === 0 ? "newest" : `${countText(behind)} step${behind === 1 ? "" : "s"} behind`;
}

/** @param {Page} page */
export function checkpointsCard(page) {
  const tiers = page.status.checkpoints;
  if (tiers === null) {
    return card("checkpoints", "Checkpoints", element("p", {},
      "The script makes no Checkpointer, so only files that it writes by itself are there."),
      element("p", {class: "quiet"}, "The line to add: ",
        element("code", {}, "ckpt = pl.Checkpointer(directory)")));
  }
  const now = page.status.job.step;
  const age = tiers.storage_age_seconds;
  const rows = [
    ["memory of the hosts", stepText(tiers.memory_step), behindText(tiers.memory_step, now), "–"],
    ["storage", stepText(tiers.storage_step), behindText(tiers.storage_step, now),
      age === null ? "–" : durationText(age)],
  ];
  const made = card("checkpoints", "Checkpoints",
    table("newest whole checkpoint of each tier", ["tier", "newest", "against the job", "age"], rows));
  if (tiers.writing_step !== null) {
    made.append(element("p", {class: "quiet"}, `writing ${stepText(tiers.writing_step)} to storage`));
  }
  if (tiers.problem) made.append(foreign("p", tiers.problem, {class: "trouble"}));
  made.append(foreign("p", tiers.directory, {class: "quiet mono"}));
  return made;
}
