/** Colours of the picture and the charts: those of the style sheet, in dark and in light. */

/**
 * @typedef {object} Theme
 * @property {Record<string, string>} colours by the names of the style sheet's variables
 * @property {string[]} series for things without a colour of their own
 */

export const FONT = '"Inter", ui-sans-serif, system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const NAMES = [
  "background", "surface", "sunken", "text", "muted", "border", "accent", "reserved", "spot",
  "on-demand", "other", "good", "bad", "warn", "kept", "blocked", "removed", "replaced", "drifted",
  "interrupted", "pending",
];
const SERIES = 10;

/** @returns {Theme} */
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return {
    colours: Object.fromEntries(NAMES.map((name) => [name, read(name)])),
    series: Array.from({ length: SERIES }, (_, n) => read(`series-${n + 1}`)),
  };
}

/** A colour for each name, by the order in which the names are given.
 * @param {string[]} names @param {Theme} theme @returns {Map<string, string>} */
export function assignColours(names, theme) {
  return new Map(names.map((name, n) => [name, theme.series[n % theme.series.length]]));
}
