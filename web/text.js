// Elements and words. Text of a job is foreign: it only ever becomes a text node.

const FOREIGN_MAX = 4000;

/**
 * Foreign text, made harmless to look at: control characters and those that reorder a line become
 * \x1b or \u{202e}. Line breaks and tabs stay.
 * @param {string | null | undefined} text
 */
export function visible(text) {
  const short = text ?? "";
  const clipped = short.length > FOREIGN_MAX ? short.slice(0, FOREIGN_MAX) + " …" : short;
  return clipped.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (one) => {
      const code = one.codePointAt(0) ?? 0;
      const digits = code.toString(16).padStart(2, "0");
      return code < 0x100 ? `\\x${digits}` : `\\u{${digits}}`;
    },
  );
}

/**
 * An element. A string among `children` becomes a text node.
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/**
 * An element for text of the job, which keeps its direction to itself.
 * @param {string} tag
 * @param {string | null | undefined} text
 * @param {Record<string, string>} [attributes]
 */
export function foreign(tag, text, attributes = {}) {
  return element(tag, attributes, element("bdi", {}, visible(text)));
}

/**
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {...Node} children
 * @returns {SVGElement}
 */
export function drawing(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** "9.2 min" @param {number} seconds */
export function durationText(seconds) {
  const units = [[86400, "d"], [3600, "h"], [60, "min"]];
  for (const [size, unit] of /** @type {[number, string][]} */ (units)) {
    if (seconds >= size) return `${(seconds / size).toFixed(1)} ${unit}`;
  }
  return seconds >= 10 ? `${Math.round(seconds)} s` : `${seconds.toFixed(1)} s`;
}

/** @param {number} part */
export function percentText(part) {
  return `${(part * 100).toFixed(1)} %`;
}

/** "14:02:11", local. @param {number} seconds since 1970 */
export function clockText(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

/** "28 Nov 2026, 14:02:11" with the time of the zone UTC behind it. @param {number} seconds */
export function dateText(seconds) {
  const date = new Date(seconds * 1000);
  const day = date.toLocaleDateString("en-GB", {day: "numeric", month: "short", year: "numeric"});
  return `${day}, ${clockText(seconds)}`;
}

/** "15,200" @param {number} count */
export function countText(count) {
  return count.toLocaleString("en-US");
}

/**
 * A table. Cells that are strings are our own words; foreign ones come as elements.
 * @param {string} caption
 * @param {string[]} heads
 * @param {(Node | string)[][]} rows
 */
export function table(caption, heads, rows) {
  const line = heads.map((head) => element("th", {scope: "col"}, head));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))));
  return element("table", {}, element("caption", {}, caption),
    element("thead", {}, element("tr", {}, ...line)), element("tbody", {}, ...body));
}

/**
 * A card of the first screen.
 * @param {string} id
 * @param {string} title
 * @param {...Node} children
 */
export function card(id, title, ...children) {
  return element("section", {id, class: "card", "aria-labelledby": `${id}-title`},
    element("h2", {id: `${id}-title`}, title), ...children);
}
