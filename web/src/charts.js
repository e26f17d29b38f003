/** The time line: what the story cost, ran and waited for, with its events, on one axis. */

import { formatClock, formatCount, formatHourly, formatNumber, formatSeconds, shorten } from "./format.js";
import { FONT } from "./theme.js";

/** @typedef {import("./model.js").StoryModel} StoryModel */
/** @typedef {import("./theme.js").Theme} Theme */
/** @typedef {import("./report.js").StoryEvent} StoryEvent */

/** @typedef {[number, number][]} Steps moments, and values that hold from then on */

/**
 * @typedef {object} Lane
 * @property {string} name
 * @property {string} colour a name of the theme
 * @property {Steps[]} steps one for each story; two lanes of one story are stacked by `base`
 * @property {Steps[]} [under] drawn on top in another colour
 * @property {string} [underColour]
 * @property {(at: number, story: number) => string} value
 * @property {"area" | "bars"} [shape]
 * @property {number[][]} [ups] moments, for bars
 * @property {number[][]} [downs]
 */

const ONE_GUTTER = 214;
const TWO_GUTTER = 300;
const RIGHT = 14;
const LANE = 27;
const GAP = 5;
const MARKS = 30;
const AXIS = 18;
const MAX_LABELS = 300;
const TICKS = [1, 5, 15, 30, 60, 300, 600, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800, 2592000];
export const MARKED = new Set(["scenario", "reservation", "restart", "fault", "interrupt", "launchFailure"]);

/** @param {Steps} steps @param {number} at */
function valueAt(steps, at) {
  let [low, high] = [0, steps.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle][0] <= at) low = middle + 1;
    else high = middle;
  }
  return low ? steps[low - 1][1] : 0;
}

/** Counts over time, from moments at which something begins and ends.
 * @param {Iterable<[number, number, number]>} spans begin, end, amount @returns {Steps} */
export function countOver(spans) {
  /** @type {Map<number, number>} */
  const changes = new Map();
  for (const [begin, end, amount] of spans) {
    changes.set(begin, (changes.get(begin) ?? 0) + amount);
    if (Number.isFinite(end)) changes.set(end, (changes.get(end) ?? 0) - amount);
  }
  let sum = 0;
  return [...changes].sort((a, b) => a[0] - b[0]).map(([at, change]) => [at, (sum += change)]);
}

/** @param {StoryModel} model @param {(node: number) => boolean} isCounted @returns {Steps} */
function nodesOver(model, isCounted) {
  const spans = /** @type {[number, number, number][]} */ ([]);
  model.nodes.forEach((_, n) => {
    if (isCounted(n)) spans.push([model.launched[n], model.nodeEnded[n], 1]);
  });
  return countOver(spans);
}

/** @param {StoryModel} model @returns {Steps} */
function reservedOver(model) {
  const spans = /** @type {[number, number, number][]} */ ([]);
  model.nodes.forEach((node, n) => {
    const changes = [[model.launched[n], node.capacityType], ...node.capacityChanges];
    changes.forEach(([at, type], k) => {
      const until = Number(changes[k + 1]?.[0] ?? model.nodeEnded[n]);
      if (type === "reserved") spans.push([Number(at), until, 1]);
    });
  });
  return countOver(spans);
}

/** @param {StoryModel} model @returns {Steps} */
function priceOver(model) {
  const { series } = model.story;
  if (series) return series.at.map((at, n) => [at, series.pricePerHour[n]]);
  const spans = /** @type {[number, number, number][]} */ ([]);
  model.nodes.forEach((node, n) => {
    node.prices.forEach(([at, price], k) => {
      if (node.pool) spans.push([at, node.prices[k + 1]?.[0] ?? model.nodeEnded[n], price ?? 0]);
    });
  });
  return countOver(spans);
}

/** @param {StoryModel} model @param {"running" | "pending"} which @returns {Steps} */
function podsOver(model, which) {
  const { series } = model.story;
  if (series) return series.at.map((at, n) => [at, series.pods[which][n]]);
  const spans = /** @type {[number, number, number][]} */ ([]);
  model.pods.forEach((pod, p) => {
    if (pod.daemon) return;
    const begin = which === "pending" ? model.created[p] : model.started[p];
    const end = which === "pending" ? Math.min(model.bound[p], model.podEnded[p]) : Math.min(model.podEnded[p], model.stopped[p]);
    if (begin < end) spans.push([begin, end, 1]);
  });
  return countOver(spans);
}

export class Charts {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {(at: number) => void} onSeek
   */
  constructor(canvas, onSeek) {
    this.canvas = canvas;
    this.onSeek = onSeek;
    const context = canvas.getContext("2d");
    if (!context) throw new Error("this browser draws on no canvas");
    this.context = context;
    /** @type {Theme | null} */
    this.theme = null;
    this.clientWidth = 1;
    /** @type {StoryModel[]} */
    this.models = [];
    /** @type {Lane[]} */
    this.lanes = [];
    /** @type {StoryEvent[]} */
    this.marks = [];
    /** @type {{at: number, text: string, from: number, width: number}[]} */
    this.labels = [];
    /** @type {StoryEvent[][]} */
    this.decisions = [];
    /** Where the charts begin: values of two stories need more room. */
    this.left = ONE_GUTTER;
    this.isTime = true;
    /** Of the axis. */
    this.end = 1;
    this.height = 0;
    this.#listen();
  }

  /** What is shown from now on; `prepare` draws it.
   * @param {StoryModel[]} models @param {number} horizon where the axis ends */
  setStories(models, horizon) {
    this.models = models;
    this.left = models.length > 1 ? TWO_GUTTER : ONE_GUTTER;
    this.isTime = models[0].story.unit === "seconds";
    /** The last step has a width, too. */
    this.end = Math.max(horizon, 1e-9) + (this.isTime ? 0 : 1);
    this.lanes = this.#makeLanes();
    const marks = models.flatMap((each) => each.story.events.filter((event) => MARKED.has(event.what)));
    /** Those of both stories once. */
    this.marks = [...new Map(marks.map((each) => [`${each.at} ${each.message}`, each])).values()];
    this.decisions = models.map((each) => each.story.events.filter((event) => event.what === "disrupt"));
    this.height = MARKS + this.lanes.length * (LANE + GAP) + AXIS;
  }

  /** @returns {Lane[]} */
  #makeLanes() {
    const { models } = this;
    const price = models.map(priceOver);
    const modelled = models.map((model) => nodesOver(model, (n) => model.nodes[n].pool !== "" && model.nodes[n].modelled.length > 0));
    const nodes = models.map((model) => nodesOver(model, (n) => model.nodes[n].pool !== ""));
    const reserved = models.map(reservedOver);
    const running = models.map((model) => podsOver(model, "running"));
    const pending = models.map((model) => podsOver(model, "pending"));
    /** @type {Lane[]} */
    const lanes = [
      { name: "cost", colour: "accent", steps: price, value: (at, s) => formatHourly(valueAt(price[s], at), valueAt(modelled[s], at) > 0) },
      {
        name: "nodes", colour: "on-demand", steps: nodes, under: reserved, underColour: "reserved",
        value: (at, s) => formatNumber(valueAt(nodes[s], at)),
      },
      { name: "running pods", colour: "good", steps: running, value: (at, s) => formatNumber(valueAt(running[s], at)) },
      { name: "pending pods", colour: "pending", steps: pending, value: (at, s) => formatNumber(valueAt(pending[s], at)) },
    ];
    const ups = models.map((model) => model.nodes.filter((node) => node.launched > 0).map((node) => node.launched));
    const downs = models.map((model) => model.pods.filter((pod) => pod.evicted).map((pod) => pod.deleting ?? pod.ended ?? 0));
    lanes.push({
      name: "launches ↑ evictions ↓", colour: "good", shape: "bars", steps: [], ups, downs,
      value: (at, s) => `${formatNumber(countUntil(ups[s], at))} / ${formatNumber(countUntil(downs[s], at))}`,
    });
    return [...lanes, ...this.#reservationLanes()];
  }

  #reservationLanes() {
    const ids = [...new Set(this.models.flatMap((model) => model.reservations.map((each) => each.id)))].slice(0, 4);
    return ids.map((id) => {
      const read = (/** @type {StoryModel} */ model, /** @type {1 | 2} */ column) => {
        const record = model.reservations.find((each) => each.id === id);
        return /** @type {Steps} */ ((record?.counts ?? []).map((each) => [each[0], each[column]]));
      };
      const used = this.models.map((model) => read(model, 1));
      const total = this.models.map((model) => read(model, 2));
      return /** @type {Lane} */ ({
        name: id, colour: "border", steps: total, under: used, underColour: "reserved",
        value: (at, s) => (valueAt(total[s], at) ? `${valueAt(used[s], at)} of ${valueAt(total[s], at)}` : "–"),
      });
    });
  }

  /** @param {Theme} theme */
  prepare(theme) {
    this.theme = theme;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = `${this.height}px`;
    this.clientWidth = this.canvas.clientWidth;
    this.canvas.width = Math.round(this.clientWidth * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    /** Everything but the moment, drawn once. */
    this.background = document.createElement("canvas");
    this.background.width = this.canvas.width;
    this.background.height = this.canvas.height;
    const context = this.background.getContext("2d");
    if (context) this.#drawBackground(context, ratio);
  }

  get width() {
    return Math.max(1, this.clientWidth - this.left - RIGHT);
  }

  /** @param {number} at */
  #x(at) {
    return this.left + (at / this.end) * this.width;
  }

  /** @param {CanvasRenderingContext2D} ctx @param {number} ratio */
  #drawBackground(ctx, ratio) {
    const { colours } = /** @type {Theme} */ (this.theme);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.textBaseline = "middle";
    this.lanes.forEach((lane, n) => {
      const top = MARKS + n * (LANE + GAP);
      ctx.fillStyle = colours.sunken;
      ctx.fillRect(this.left, top, this.width, LANE);
      if (lane.shape === "bars") this.#drawBars(ctx, lane, top);
      else this.#drawAreas(ctx, lane, top);
      ctx.fillStyle = colours.muted;
      ctx.font = `11px ${FONT}`;
      ctx.fillText(`\u2068${shorten(lane.name, 24)}\u2069`, 4, top + LANE / 2 + 1);
    });
    this.#drawAxis(ctx);
    this.#drawMarks(ctx);
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Lane} lane @param {number} top */
  #drawAreas(ctx, lane, top) {
    const { colours } = /** @type {Theme} */ (this.theme);
    const highest = largest(lane.steps.flatMap((steps) => steps.map(([, value]) => value)), 1e-9);
    lane.steps.forEach((steps, story) => {
      this.#trace(ctx, steps, top, highest, story);
      if (story === 0) {
        ctx.globalAlpha = 0.28;
        ctx.fillStyle = colours[lane.colour];
        this.#close(ctx, top);
        ctx.fill();
      }
      ctx.globalAlpha = 1;
      this.#trace(ctx, steps, top, highest, story);
      ctx.strokeStyle = story === 0 ? colours[lane.colour === "border" ? "muted" : lane.colour] : colours.text;
      ctx.setLineDash(story === 0 ? [] : [4, 3]);
      ctx.lineWidth = 1.5;
      ctx.stroke();
      ctx.setLineDash([]);
    });
    (lane.under ?? []).slice(0, 1).forEach((steps) => {
      this.#trace(ctx, steps, top, highest, 0);
      this.#close(ctx, top);
      ctx.globalAlpha = 0.75;
      ctx.fillStyle = colours[lane.underColour ?? lane.colour];
      ctx.fill();
      ctx.globalAlpha = 1;
    });
  }

  /** Where a story ends, or where it has got to.
   * @param {number} story */
  #rightOf(story) {
    return this.isTime ? this.#x(this.models[story].story.end) : this.left + this.width;
  }

  /** A step function as a path.
   * @param {CanvasRenderingContext2D} ctx @param {Steps} steps @param {number} top @param {number} highest
   * @param {number} story */
  #trace(ctx, steps, top, highest, story) {
    const y = (/** @type {number} */ value) => top + LANE - 1 - (value / highest) * (LANE - 4);
    ctx.beginPath();
    ctx.moveTo(this.left, y(steps.length && steps[0][0] <= 0 ? steps[0][1] : 0));
    let last = steps.length && steps[0][0] <= 0 ? steps[0][1] : 0;
    for (const [at, value] of steps) {
      const x = this.#x(at);
      ctx.lineTo(x, y(last));
      ctx.lineTo(x, y(value));
      last = value;
    }
    ctx.lineTo(this.#rightOf(story), y(last));
  }

  /** @param {CanvasRenderingContext2D} ctx @param {number} top */
  #close(ctx, top) {
    ctx.lineTo(this.#rightOf(0), top + LANE);
    ctx.lineTo(this.left, top + LANE);
    ctx.closePath();
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Lane} lane @param {number} top */
  #drawBars(ctx, lane, top) {
    const { colours } = /** @type {Theme} */ (this.theme);
    const bins = Math.max(1, Math.floor(this.width / 4));
    const [ups, downs] = [lane.ups ?? [], lane.downs ?? []].map((lists) => lists.map((list) => this.#histogram(list, bins)));
    const highest = largest([...ups, ...downs].flat(), 1);
    const middle = top + LANE / 2;
    const shares = ups.length;
    ups.forEach((counts, story) => {
      const width = Math.max(1, 3 / shares);
      for (let bin = 0; bin < bins; bin += 1) {
        const x = this.left + (bin / bins) * this.width + story * width;
        const [up, down] = [counts[bin], downs[story][bin]].map((count) => (count ? Math.max(2, (Math.sqrt(count / highest)) * (LANE / 2 - 2)) : 0));
        ctx.globalAlpha = story ? 0.5 : 1;
        ctx.fillStyle = colours.good;
        ctx.fillRect(x, middle - up, width, up);
        ctx.fillStyle = colours.bad;
        ctx.fillRect(x, middle, width, down);
      }
    });
    ctx.globalAlpha = 1;
    ctx.fillStyle = colours.border;
    ctx.fillRect(this.left, middle, this.width, 1);
  }

  /** @param {number[]} moments @param {number} bins */
  #histogram(moments, bins) {
    const counts = new Array(bins).fill(0);
    for (const at of moments) counts[Math.min(bins - 1, Math.floor((at / this.end) * bins))] += 1;
    return counts;
  }

  /** @param {CanvasRenderingContext2D} ctx */
  #drawAxis(ctx) {
    const { colours } = /** @type {Theme} */ (this.theme);
    const y = this.height - AXIS / 2;
    ctx.font = `11px ${FONT}`;
    ctx.textAlign = "center";
    const step = this.isTime ? TICKS.find((each) => this.end / each <= this.width / 80) ?? TICKS[TICKS.length - 1] : Math.max(1, Math.ceil(this.end / 12));
    for (let at = 0; at <= this.end - (this.isTime ? 0 : 1); at += step) {
      const x = this.#x(at);
      ctx.fillStyle = colours.border;
      ctx.globalAlpha = 0.6;
      ctx.fillRect(Math.round(x), MARKS, 1, this.height - MARKS - AXIS);
      ctx.globalAlpha = 1;
      ctx.fillStyle = colours.muted;
      ctx.textAlign = x > this.clientWidth - 40 ? "right" : "center";
      ctx.fillText(this.#axisLabel(at), Math.min(x, this.clientWidth - 4), y);
    }
    ctx.textAlign = "left";
  }

  /** @param {number} at */
  #axisLabel(at) {
    if (!this.isTime) return at === 0 ? "now" : `step ${at}`;
    const { start } = this.models[0].story;
    return start === null ? formatSeconds(at) : formatClock(start, at).slice(0, this.end < 600 ? 8 : 5);
  }

  /** What the scenario makes happen, as flags; a label where there is room.
   * @param {CanvasRenderingContext2D} ctx */
  #drawMarks(ctx) {
    const { colours } = /** @type {Theme} */ (this.theme);
    ctx.font = `11px ${FONT}`;
    ctx.fillStyle = colours.muted;
    ctx.fillText(this.isTime ? "events" : "commands", 4, 16);
    const shown = this.isTime ? this.marks : this.decisions.flat();
    for (const mark of shown) {
      const x = this.#x(mark.at);
      ctx.fillStyle = colours[markColour(mark)];
      ctx.beginPath();
      ctx.moveTo(x - 4, MARKS - 10);
      ctx.lineTo(x + 4, MARKS - 10);
      ctx.lineTo(x, MARKS - 3);
      ctx.closePath();
      ctx.fill();
      ctx.globalAlpha = 0.35;
      ctx.fillRect(x, MARKS - 4, 1, this.height - MARKS - AXIS + 4);
      ctx.globalAlpha = 1;
    }
    this.#placeLabels(ctx, shown);
  }

  /** Where the label of each mark would be; which of them are drawn depends on the moment.
   * @param {CanvasRenderingContext2D} ctx @param {StoryEvent[]} marks */
  #placeLabels(ctx, marks) {
    this.labels = [...marks].sort((a, b) => a.at - b.at).slice(0, MAX_LABELS).map((mark) => {
      const text = shorten(mark.message, 44);
      const width = ctx.measureText(text).width;
      return { at: mark.at, text, from: Math.min(this.#x(mark.at) - 4, this.clientWidth - width - 6), width };
    });
  }

  /** That of the last event before the moment first, then others where there is room.
   * @param {CanvasRenderingContext2D} ctx @param {number} at */
  #drawLabels(ctx, at) {
    const { colours } = /** @type {Theme} */ (this.theme);
    const current = this.#decisionLabel(ctx, at) ?? this.labels.findLast((each) => each.at <= at && this.#x(at) - this.#x(each.at) < 40) ?? null;
    const drawn = current ? [current] : [];
    for (const label of this.labels) {
      if (drawn.every((each) => label.from > each.from + each.width + 12 || label.from + label.width + 12 < each.from)) drawn.push(label);
    }
    ctx.textAlign = "left";
    for (const label of drawn) {
      ctx.font = `${label === current ? "600 " : ""}11px ${FONT}`;
      ctx.fillStyle = label === current ? colours.text : colours.muted;
      ctx.fillText(`\u2068${label.text}\u2069`, label.from, 9);
    }
  }

  /** Of what was removed at this very moment.
   * @param {CanvasRenderingContext2D} ctx @param {number} at */
  #decisionLabel(ctx, at) {
    const found = this.isTime ? this.decisions[0].find((each) => each.at === at) : null;
    if (!found) return null;
    const { savingsPerHour: saved } = found;
    const money = saved && saved > 0 ? `, saves ${formatHourly(saved, found.modelledPrices ?? false)}` : "";
    ctx.font = `600 11px ${FONT}`;
    const text = shorten(`${found.message}${money}`, 60);
    const width = ctx.measureText(text).width;
    return { at, text, from: Math.min(this.#x(at) - 4, this.clientWidth - width - 6), width };
  }

  /** @param {number} at */
  draw(at) {
    if (!this.theme || !this.background?.width) return; // hidden where there is no time
    const { context: ctx } = this;
    const { colours } = this.theme;
    const ratio = window.devicePixelRatio || 1;
    ctx.setTransform(1, 0, 0, 1, 0, 0);
    ctx.clearRect(0, 0, this.canvas.width, this.canvas.height);
    ctx.drawImage(this.background, 0, 0);
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.textBaseline = "middle";
    ctx.font = `600 12px ${FONT}`;
    ctx.fillStyle = colours.text;
    ctx.textAlign = "right";
    this.lanes.forEach((lane, n) => {
      const top = MARKS + n * (LANE + GAP);
      const values = this.models.map((_, story) => lane.value(at, story));
      ctx.fillText(values.join(" | "), this.left - 10, top + LANE / 2 + 1);
    });
    this.#drawLabels(ctx, at);
    const x = this.#x(at);
    ctx.fillStyle = colours.text;
    ctx.fillRect(x - 0.75, 18, 1.5, this.height - AXIS - 18);
    ctx.beginPath();
    ctx.arc(x, 18, 5, 0, Math.PI * 2);
    ctx.fill();
  }

  #listen() {
    const { canvas } = this;
    let isDragged = false;
    const seek = (/** @type {PointerEvent} */ event) => {
      const share = (event.offsetX - this.left) / this.width;
      const at = Math.min(1, Math.max(0, share)) * this.end;
      this.onSeek(this.isTime ? at : Math.floor(at));
    };
    canvas.addEventListener("pointerdown", (event) => {
      const mark = this.#markAt(event.offsetX, event.offsetY);
      canvas.setPointerCapture(event.pointerId);
      if (mark) this.onSeek(mark.at);
      else {
        isDragged = true;
        seek(event);
      }
    });
    canvas.addEventListener("pointermove", (event) => {
      const mark = this.#markAt(event.offsetX, event.offsetY);
      canvas.title = mark ? `${this.#axisLabel(mark.at)} ${shorten(mark.message, 200)}` : "";
      if (isDragged) seek(event);
    });
    canvas.addEventListener("pointerup", () => (isDragged = false));
    canvas.addEventListener("pointercancel", () => (isDragged = false));
  }

  /** @param {number} x @param {number} y @returns {StoryEvent | null} */
  #markAt(x, y) {
    if (y > MARKS) return null;
    const shown = this.isTime ? this.marks : this.decisions.flat();
    return shown.find((mark) => Math.abs(this.#x(mark.at) - x) <= 5) ?? null;
  }

  /** What the charts show, for those who cannot see them.
   * @param {number} at */
  describe(at) {
    const parts = this.lanes.map((lane) => `${lane.name} ${this.models.map((_, s) => lane.value(at, s)).join(" and ")}`);
    return `${parts.join(", ")}; ${formatCount(this.marks.length, "event")} marked`;
  }
}

/** @param {number[]} values @param {number} least */
function largest(values, least) {
  return values.reduce((most, each) => Math.max(most, each), least);
}

/** @param {number[]} moments @param {number} at */
function countUntil(moments, at) {
  return moments.reduce((sum, each) => sum + (each <= at ? 1 : 0), 0);
}

/** @param {StoryEvent} mark */
function markColour(mark) {
  if (mark.what === "scenario") return "accent";
  if (mark.what === "reservation") return "reserved";
  if (mark.what === "disrupt") return "replaced";
  return mark.what === "restart" ? "muted" : "bad";
}
