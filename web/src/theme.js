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

/** Black or white, whichever can be read better on a colour.
 * @param {string} colour #rrggbb */
export function inkOn(colour) {
  const parts = [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16) / 255);
  const [red, green, blue] = parts.map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return 1.05 / (luminance + 0.05) >= (luminance + 0.05) / 0.05 ? "#ffffff" : "#000000";
}
