/** Numbers and moments as text, as the other outputs of wain write them. */

export const HOURS_PER_MONTH = 730;
const GIB = 2 ** 30;

/** By digits; making one takes longer than using it a hundred times. */
const FORMATS = [0, 1, 2, 3].map(
  (digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
);

/** @param {number} value @param {0 | 1 | 2 | 3} [digits] */
export function formatNumber(value, digits = 0) {
  return FORMATS[digits].format(value);
}

/** @param {number} count @param {string} noun */
export function formatCount(count, noun) {
  return count === 1 ? `1 ${noun}` : `${formatNumber(count)} ${noun}s`;
}

/** Three decimals; the price of reserved capacity is almost, but not exactly, 0. An estimate is
 * marked: ~$1.235/h.
 * @param {number | null} price @param {boolean} isModelled */
export function formatHourly(price, isModelled) {
  if (price === null) return "price unknown";
  if (price > 0 && price < 0.0005) return "≈$0/h";
  return `${isModelled && price ? "~" : ""}$${formatNumber(price, 3)}/h`;
}

/** @param {number | null} price @param {boolean} isModelled */
export function formatMonthly(price, isModelled) {
  if (price === null) return "";
  const amount = price * HOURS_PER_MONTH;
  return `${isModelled && price ? "~" : ""}$${formatNumber(amount, amount >= 10 ? 0 : 2)}/month`;
}

/** @param {number} milli */
export function formatCpu(milli) {
  const cores = milli / 1000;
  return formatNumber(cores, Number.isInteger(cores) || cores >= 100 ? 0 : cores < 10 ? 2 : 1);
}

/** @param {number} bytes */
export function formatMemory(bytes) {
  const gib = bytes / GIB;
  if (gib >= 1024) return `${formatNumber(gib / 1024, 1)} Ti`;
  if (gib >= 1 || bytes === 0) return `${formatNumber(gib, gib >= 100 || bytes === 0 ? 0 : 1)} Gi`;
  return `${formatNumber(bytes / 2 ** 20)} Mi`;
}

/** @param {number} used @param {number} total */
export function formatShare(used, total) {
  return total > 0 ? `${formatNumber((used / total) * 100, 0)}%` : "–";
}

/** 45s, 2m10s, 6h: two units at most.
 * @param {number} seconds */
export function formatSeconds(seconds) {
  const whole = Math.round(seconds);
  const parts = [
    [Math.floor(whole / 3600), "h"],
    [Math.floor((whole % 3600) / 60), "m"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount !== 0);
  if (first < 0) return "0s";
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount !== 0)
    .map(([amount, unit]) => `${amount}${unit}`)
    .join("");
}

/** The time of day in UTC, with the date where several days are shown.
 * @param {string | null} start @param {number} seconds @param {boolean} [withDate] */
export function formatClock(start, seconds, withDate = false) {
  if (start === null) return formatSeconds(seconds);
  const moment = new Date(Date.parse(start) + seconds * 1000);
  const time = moment.toISOString().slice(11, 19);
  return withDate ? `${moment.toISOString().slice(0, 10)} ${time}` : time;
}

/** The end of a long name is what tells it apart.
 * @param {string} text @param {number} most */
export function shorten(text, most) {
  const characters = [...text];
  if (characters.length <= most) return text;
  const head = Math.ceil((most - 1) * 0.6);
  return `${characters.slice(0, head).join("")}…${characters.slice(-(most - 1 - head)).join("")}`;
}
