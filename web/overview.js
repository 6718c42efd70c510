// The first screen: the job's sentence, goodput, timeline, checkpoints, open incidents.

import {checkpointsCard} from "./checkpoints.js";
import {goodputCard} from "./goodput.js";
import {heatCards} from "./heat_map.js";
import {openIncidentsCard} from "./incidents.js";
import {timelineCard} from "./timeline.js";
import {countText, durationText, element, foreign, visible} from "./text.js";

/** @typedef {import("./data.js").Page} Page */

/** "step 812 of 1,200 · 8.1 steps/s · world 2 of 8 ranks" @param {Page} page */
export function factsText(page) {
  const {job, world} = page.status;
  const facts = [];
  if (job.step !== null) {
    const total = job.steps_total === null ? "" : ` of ${countText(job.steps_total)}`;
    facts.push(`step ${countText(job.step)}${total}`);
  }
  if (job.steps_per_second) facts.push(`${job.steps_per_second.toFixed(1)} steps/s`);
  if (world.number > 0) facts.push(`world ${world.number} of ${countText(world.size)} ranks`);
  facts.push(`${countText(job.restarts)} restart${job.restarts === 1 ? "" : "s"}`);
  if (job.exit_code !== null) facts.push(`exit code ${job.exit_code}`);
  if (page.goodput.steps_redone > 0) {
    facts.push(`${countText(page.goodput.steps_redone)} steps repeated or lost`);
  }
  facts.push(`age ${durationText(job.age_seconds)}`);
  return facts.join(" · ");
}

/** Of a failed job the cause comes first. @param {Page} page */
function sentenceBlock(page) {
  const cause = page.state === "failed" ? page.incidents[0]?.title : undefined;
  const block = element("div", {class: "sentences"});
  const sentence = page.sentence || (page.status.job.phase === "running" ? "training" : "");
  block.append(foreign("h1", cause ?? sentence, {class: "sentence"}));
  if (cause !== undefined && visible(cause) !== visible(sentence)) block.append(foreign("p", sentence));
  block.append(element("p", {id: "facts", class: "quiet number"}, factsText(page)));
  for (const text of page.troubles) block.append(foreign("p", text, {class: "trouble"}));
  for (const slow of page.status.slow) block.append(foreign("p", slow.sentence, {class: "trouble"}));
  return block;
}

/** @param {Page} page */
export function overview(page) {
  return element("div", {id: "overview", class: "view"}, sentenceBlock(page), goodputCard(page),
    timelineCard(page), ...heatCards(page),
    element("div", {class: "pair"}, checkpointsCard(page), openIncidentsCard(page)));
}
