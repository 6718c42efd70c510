// The heat map's data: how much longer each rank's own work took than its peers', per 10 s. Its
// bytes are those of docs/formats/heat.md.

const UNTOLD = 0;
const USUAL = 101;
const RECENT = 3;  // columns: what is said of now must have lasted so long

/**
 * @typedef {{number: number, world: number, ranks: Uint8Array}} Column
 * @typedef {{
 *   version: bigint, seconds: number, hasStages: boolean, isPiped: boolean, columns: Column[]
 * }} Heat
 */

/** Of this page. None: it is a file, which has no heat map. @type {{now: Heat | null}} */
export const heatOfPage = {now: null};

/** @returns {Heat} */
export function noHeat() {
  return {version: 0n, seconds: 10, hasStages: false, isPiped: false, columns: []};
}

/**
 * What a master answered, added to what was known: columns of the answer replace those of the same
 * time. Throws if the bytes are none of this format.
 * @param {ArrayBuffer} bytes
 * @param {Heat} former
 * @returns {Heat}
 */
export function readHeat(bytes, former) {
  const view = new DataView(bytes);
  const magic = new TextDecoder().decode(bytes.slice(0, 8));
  if (magic !== "PLHEAT1\n") throw new Error("the master's heat map has another format");
  const flags = view.getUint32(20, true);
  const kept = view.getUint32(24, true);
  const count = view.getUint32(28, true);
  const version = view.getBigUint64(8, true);
  /** @type {Map<number, Column>} */
  const byNumber = new Map();
  // A master that knows less than this page is a new one, which began anew.
  if (version >= former.version) for (const one of former.columns) byNumber.set(one.number, one);
  let at = 32;
  for (let i = 0; i < count; ++i) {
    const number = view.getUint32(at, true);
    const ranks = view.getUint32(at + 8, true);
    byNumber.set(number, {number, world: view.getUint32(at + 4, true),
      ranks: new Uint8Array(bytes, at + 12, ranks)});
    at += 12 + ranks;
  }
  const columns = [...byNumber.values()].sort((a, b) => a.number - b.number);
  return {version, seconds: view.getUint32(16, true), hasStages: (flags & 1) !== 0,
    isPiped: (flags & 2) !== 0, columns: columns.slice(-kept)};
}

/** How much longer, as a share: 0.1 is 10 %. None: not told. @param {number} byte */
export function excessOf(byte) {
  return byte === UNTOLD ? null : (byte - USUAL) / 100;
}

/** "10 % longer" @param {number | null} excess */
export function excessText(excess) {
  if (excess === null) return "not told";
  const percent = Math.round(excess * 100);
  if (percent === 0) return "as long as its peers";
  const most = percent >= 154 ? "154 % or more" : `${Math.abs(percent)} %`;
  return percent > 0 ? `${most} longer` : `${most} shorter`;
}

/** The columns of the newest world. @param {Heat} heat */
function newestWorld(heat) {
  const newest = heat.columns.at(-1);
  return heat.columns.filter((one) => one.world === newest?.world
    && one.ranks.length === newest?.ranks.length);
}

/**
 * For each rank the byte that it had or exceeded in each of the last columns that tell of it, so
 * that one interruption makes no rank slow. UNTOLD: none of them does.
 * @param {Heat} heat
 */
export function recentHeat(heat) {
  const columns = newestWorld(heat).slice(-RECENT);
  const least = new Uint8Array(columns.at(-1)?.ranks.length ?? 0);
  for (const {ranks} of columns) {
    for (let rank = 0; rank < least.length; ++rank) {
      const byte = ranks[rank];
      if (byte !== UNTOLD && (least[rank] === UNTOLD || byte < least[rank])) least[rank] = byte;
    }
  }
  return {least, seconds: columns.length * heat.seconds};
}

/**
 * The ranks by slowness, the slowest first.
 * @param {Heat} heat
 * @param {number} count
 */
export function slowestRanks(heat, count) {
  const {least} = recentHeat(heat);
  return [...least.keys()].sort((a, b) => least[b] - least[a] || a - b).slice(0, count);
}

/** The most that the rank had in any column. @param {Heat} heat @param {number} rank */
export function mostOf(heat, rank) {
  return Math.max(UNTOLD, ...newestWorld(heat).map((one) => one.ranks[rank]));
}
