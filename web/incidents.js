// Incidents: open ones on the first screen, and the view of all with what `paceline why` says.

import {card, clockText, dateText, durationText, element, foreign, visible} from "./text.js";

/** @typedef {import("./data.js").Page} Page */
/** @typedef {import("./data.js").Incident} Incident */

/** @param {Incident} incident */
function costText(incident) {
  const parts = [];
  if (incident.rank_seconds !== null) parts.push(`${durationText(incident.rank_seconds)} of rank time`);
  if (incident.cost) parts.push(visible(incident.cost));
  return parts.join("; ");
}

/** "lasted 28 s" of a hang, "" of others. @param {Incident} incident */
function lengthText(incident) {
  if (incident.lasted_seconds === null) return "";
  const length = durationText(incident.lasted_seconds);
  return incident.is_open ? `lasts for ${length} already` : `lasted ${length}`;
}

/** @param {Incident} incident */
export function incidentLink(incident) {
  const cost = [lengthText(incident), costText(incident)].filter((one) => one).join(" · ");
  return element("li", {},
    element("a", {href: `#incident-${incident.seq}`}, element("bdi", {}, visible(incident.title))),
    element("span", {class: "quiet"}, ` ${clockText(incident.at)}${cost ? ` · ${cost}` : ""}`));
}

/** @param {Page} page */
export function openIncidentsCard(page) {
  const open = page.incidents.filter((incident) => incident.is_open);
  const over = page.incidents.filter((incident) => !incident.is_open).slice(0, 2);
  const made = card("open-incidents", "Open incidents");
  if (open.length === 0) made.append(element("p", {class: "none"}, "none"));
  else made.append(element("ul", {class: "incident-list"}, ...open.map(incidentLink)));
  if (over.length > 0) {
    made.append(element("h3", {}, "The last that are over"),
      element("ul", {class: "incident-list"}, ...over.map(incidentLink)));
  }
  return made;
}

/** @param {string} title @param {import("./data.js").Event[]} events */
function eventList(title, events) {
  if (events.length === 0) return [];
  const rows = events.map((event) => element("li", {},
    element("span", {class: "number quiet"}, `${event.seq}`),
    element("time", {class: "number", datetime: new Date(event.time * 1000).toISOString()},
      clockText(event.time)),
    element("span", {class: "kind"}, event.kind.replaceAll("_", " ")),
    foreign("span", event.sentence)));
  return [element("h3", {}, title), element("ol", {class: "events"}, ...rows)];
}

/** @param {string} title @param {string} text */
function block(title, text) {
  if (!text) return [];
  return [element("h3", {}, title),
    element("pre", {tabindex: "0", "aria-label": title}, element("bdi", {}, visible(text)))];
}

/** @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = element("textarea", {"aria-hidden": "true"});
    /** @type {HTMLTextAreaElement} */ (area).value = text;
    document.body.append(area);
    /** @type {HTMLTextAreaElement} */ (area).select();
    const isDone = document.execCommand("copy");
    area.remove();
    return isDone;
  }
}

/** @param {Incident} incident */
function copyButton(incident) {
  const button = element("button", {type: "button"}, "Copy as text");
  button.addEventListener("click", async () => {
    const isDone = await copy(incident.text);
    button.textContent = isDone ? "Copied" : "The browser did not allow it";
  });
  return button;
}

/** @param {Incident} incident */
function article(incident) {
  const cost = costText(incident);
  const made = element("article", {id: `incident-${incident.seq}`, class: "card", tabindex: "-1"},
    element("header", {},
      element("p", {class: "quiet"},
        `${dateText(incident.at)} · event ${incident.seq} · ${incident.is_open ? "open" : "over"}`),
      copyButton(incident)),
    foreign("h2", incident.title));
  if (incident.class) {
    const {name, role, advice} = incident.class;
    made.append(element("p", {}, element("b", {}, "class "),
      element("bdi", {}, visible(`${name} (${role})${advice ? `: ${advice}` : ""}`))));
  }
  const length = lengthText(incident);
  if (length) made.append(element("p", {}, element("b", {}, "hang "),
    `began at ${clockText(incident.at)}, ${length}`));
  if (cost) made.append(element("p", {}, element("b", {}, "cost "), cost));
  if (incident.verdict) made.append(foreign("p", incident.verdict));
  if (incident.next) made.append(element("p", {}, element("b", {}, "next "),
    element("bdi", {}, visible(incident.next))));
  made.append(...eventList("Tried before", incident.tried),
    ...eventList("Evidence", incident.evidence),
    ...eventList("What was done", incident.outcome),
    ...block("Traceback", incident.traceback ?? ""),
    ...block("Last lines of the rank", incident.log.join("\n")));
  if (incident.follow_ons > 0) {
    made.append(element("p", {class: "quiet"},
      `Failures that followed and are not the cause: ${incident.follow_ons}.`));
  }
  return made;
}

/** @param {Page} page */
export function incidentsView(page) {
  const view = element("div", {id: "incidents", class: "view"});
  view.append(element("h1", {class: "sentence"}, "Incidents"));
  if (page.incidents.length === 0) {
    view.append(element("p", {class: "card none"}, "No world of this job has ended before its time, and no hang was named."));
  }
  view.append(...page.incidents.map(article));
  return view;
}
