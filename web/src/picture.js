/** The cluster as a picture: nodes as boxes as large as their cpu, pods inside, on a canvas. */

import { TITLE_HEIGHT, layOut, squarify } from "./layout.js";
import { formatCount, formatShare, shorten } from "./format.js";
import { FONT, assignColours, inkOn } from "./theme.js";

/** @typedef {import("./model.js").StoryModel} StoryModel */
/** @typedef {import("./model.js").State} State */
/** @typedef {import("./layout.js").Slot} Slot */
/** @typedef {import("./layout.js").Group} Group */
/** @typedef {import("./theme.js").Theme} Theme */

/** @typedef {{kind: "node" | "pod", number: number}} Selection */
/** @typedef {"capacity" | "pool" | "verdict" | "workload"} Colouring */

const PODS_FROM = 26; // pixels: smaller boxes show how full they are instead
const LABEL_FROM = 62;
const MAX_SCALE = 40;

/** Isolated, so that a name in another direction does not turn the line around.
 * @param {string} text */
function isolated(text) {
  return `\u2068${text}\u2069`;
}

export class Picture {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {StoryModel} model
   * @param {(selection: Selection | null) => void} onSelect
   */
  constructor(canvas, model, onSelect) {
    this.canvas = canvas;
    this.model = model;
    this.onSelect = onSelect;
    const context = canvas.getContext("2d");
    if (!context) throw new Error("this browser draws on no canvas");
    this.context = context;
    /** @type {import("./layout.js").Grouping} */
    this.grouping = "capacity";
    /** @type {Colouring} */
    this.colouring = "capacity";
    /** @type {Selection | null} */
    this.selection = null;
    /** @type {Set<number> | null} nodes that a search found */
    this.found = null;
    this.camera = { x: 0, y: 0, scale: 1 };
    this.size = { width: 1, height: 1 };
    /** @type {Theme | null} */
    this.theme = null;
    /** @type {Map<string, string>} */
    this.colours = new Map();
    this.#listen();
  }

  /** To be called when the window, the grouping or the theme has changed.
   * @param {Theme} theme */
  prepare(theme) {
    this.theme = theme;
    // Read once: each look at the size of an element may have the browser lay out the page.
    const { clientWidth, clientHeight } = this.canvas;
    this.size = { width: clientWidth, height: clientHeight };
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(clientWidth * ratio));
    this.canvas.height = Math.max(1, Math.round(clientHeight * ratio));
    this.layout = layOut(this.model, this.grouping, Math.max(clientWidth, 200), Math.max(clientHeight, 120));
    this.colours = assignColours(this.#colouredNames(), theme);
    this.draw(this.model.state);
  }

  #colouredNames() {
    const { model } = this;
    if (this.colouring === "workload") return [...new Set(model.pods.filter((p) => !p.daemon).map((p) => p.owner))].sort();
    const pools = [...model.story.pools.map((p) => p.name), ...model.nodes.map((n) => n.pool)];
    return [...new Set(pools.filter(Boolean))];
  }

  /** What the colours of the picture mean.
   * @returns {[string, string][]} */
  legend() {
    const colours = this.theme?.colours ?? {};
    if (this.colouring === "pool" || this.colouring === "workload") {
      return [...this.colours].map(([name, colour]) => [name || "no owner", colour]);
    }
    const names = this.colouring === "capacity"
      ? ["reserved", "spot", "on-demand"]
      : ["kept", "blocked", "removed", "replaced", "drifted", "interrupted"];
    const present = new Set(this.colouring === "capacity"
      ? this.model.nodes.flatMap((each) => [each.capacityType, ...each.capacityChanges.map((change) => change[1])])
      : this.model.story.verdicts.map((each) => each.verdict));
    return names.filter((name) => present.has(name)).map((name) => [name, colours[name]]);
  }

  /** @param {number} node @param {number} at */
  #colourOf(node, at) {
    const { colours } = /** @type {Theme} */ (this.theme);
    const record = this.model.nodes[node];
    if (!record.pool) return colours.other;
    if (this.colouring === "pool") return this.colours.get(record.pool) ?? colours.other;
    if (this.colouring === "verdict") {
      const verdict = this.model.verdictOf(node, at);
      return (verdict && colours[verdict.verdict]) || colours.other;
    }
    if (this.colouring === "workload") return colours.muted;
    return colours[this.model.capacityOf(node, at)[0]] ?? colours.other;
  }

  // Drawing

  /** @param {State} state */
  draw(state) {
    if (!this.layout || !this.theme) return;
    const { context: ctx, camera } = this;
    const ratio = window.devicePixelRatio || 1;
    const { colours } = this.theme;
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, this.size.width, this.size.height);
    ctx.textBaseline = "middle";
    for (const group of this.layout.groups) {
      const x = (group.x - camera.x) * camera.scale;
      const y = (group.y - camera.y) * camera.scale;
      const [width, height] = [group.width * camera.scale, group.height * camera.scale];
      if (!this.#isVisible(x, y, width, height)) continue;
      ctx.fillStyle = colours.sunken;
      ctx.beginPath();
      ctx.roundRect(x, y, width, height, 8);
      ctx.fill();
      this.#drawTitle(group, state, x, y, width);
      this.#drawSlots(group, state);
    }
    this.#drawSelection(state);
  }

  /** @param {Group} group @param {State} state @param {number} x @param {number} y @param {number} width */
  #drawTitle(group, state, x, y, width) {
    const { context: ctx } = this;
    const { colours } = /** @type {Theme} */ (this.theme);
    const here = group.slots.reduce((sum, slot) => sum + (this.#nodeIn(slot, state) >= 0 ? 1 : 0), 0);
    let count = formatCount(here, "node");
    if (group.reservation >= 0) {
      const { used, total, idle } = this.model.reservationAt(group.reservation, state.at);
      const others = total - here - idle;
      const parts = [`${used} of ${total} used`, others > 0 ? `${others} not by these nodes` : "", idle ? `${idle} idle` : ""];
      count = total ? parts.filter(Boolean).join(", ") : `${formatCount(here, "node")}, not active`;
    }
    ctx.font = `12px ${FONT}`;
    const rest = width - 28 - ctx.measureText(count).width;
    const middle = y + TITLE_HEIGHT / 2 + 2;
    this.#drawLabel(count, x + width - 8, middle, width - 16, colours.muted, "right", "12px");
    this.#drawLabel(group.title, x + 8, middle, rest, colours.text, "left", "600 12px", group.brief);
  }

  /** @param {Group} group @param {State} state */
  #drawSlots(group, state) {
    const { camera } = this;
    const reserved = group.reservation >= 0 ? this.model.reservationAt(group.reservation, state.at) : null;
    const here = group.slots.filter((slot) => this.#nodeIn(slot, state) >= 0).length;
    let [idle, others] = reserved ? [reserved.idle, Math.max(0, reserved.total - reserved.idle - here)] : [0, 0];
    for (const slot of group.slots) {
      const node = this.#nodeIn(slot, state);
      const side = slot.side * camera.scale;
      const x = (slot.x - camera.x) * camera.scale;
      const y = (slot.y - camera.y) * camera.scale;
      const isIdle = node < 0 && idle > 0;
      const isTaken = node < 0 && !isIdle && others > 0;
      if (isIdle) idle -= 1;
      if (isTaken) others -= 1;
      if (!this.#isVisible(x, y, side, side)) continue;
      if (isIdle) this.#drawIdle(x, y, side);
      else if (node < 0) this.#drawFree(x, y, side, isTaken);
      else this.#drawNode(node, state, x, y, side);
    }
  }

  /** A place that a node has at another moment, or an instance that somebody else uses.
   * @param {number} x @param {number} y @param {number} side @param {boolean} isTaken */
  #drawFree(x, y, side, isTaken) {
    if (side < 10) return;
    const { context: ctx } = this;
    const { colours } = /** @type {Theme} */ (this.theme);
    ctx.strokeStyle = colours.border;
    if (isTaken) {
      ctx.fillStyle = colours.border;
      ctx.beginPath();
      ctx.roundRect(x, y, side, side, Math.min(6, side / 8));
      ctx.fill();
      if (side >= 50) this.#drawLabel("in use", x + side / 2, y + side / 2, side - 8, colours.text, "center", "11px");
      return;
    }
    ctx.lineWidth = 1;
    ctx.globalAlpha = 0.55;
    ctx.beginPath();
    ctx.roundRect(x + 0.5, y + 0.5, side - 1, side - 1, Math.min(6, side / 8));
    ctx.stroke();
    ctx.globalAlpha = 1;
  }

  /** @param {number} x @param {number} y @param {number} side */
  #drawIdle(x, y, side) {
    const { context: ctx } = this;
    const { colours } = /** @type {Theme} */ (this.theme);
    ctx.save();
    ctx.strokeStyle = colours.reserved;
    ctx.lineWidth = 1.2;
    ctx.beginPath();
    ctx.roundRect(x + 0.6, y + 0.6, side - 1.2, side - 1.2, Math.min(6, side / 8));
    if (side > 10) ctx.setLineDash([4, 3]);
    ctx.stroke();
    ctx.setLineDash([]);
    if (side > 8) {
      ctx.clip();
      ctx.globalAlpha = 0.28;
      ctx.lineWidth = 1;
      ctx.beginPath();
      for (let offset = -side; offset < side; offset += 7) {
        ctx.moveTo(x + offset, y + side);
        ctx.lineTo(x + offset + side, y);
      }
      ctx.stroke();
    }
    ctx.restore();
    if (side >= 38) this.#drawLabel("idle", x + side / 2, y + side / 2, side - 8, colours.text, "center", "600 12px");
  }

  /** @param {number} node @param {State} state @param {number} x @param {number} y @param {number} side */
  #drawNode(node, state, x, y, side) {
    const { context: ctx, model } = this;
    const { colours } = /** @type {Theme} */ (this.theme);
    const colour = this.#colourOf(node, state.at);
    const isDimmed = this.found !== null && !this.found.has(node);
    if (side < PODS_FROM) {
      this.#drawSmallNode(node, state, colour, x, y, side, isDimmed ? 0.15 : 1);
      return;
    }
    ctx.globalAlpha = isDimmed ? 0.15 : 1;
    const radius = Math.min(6, side / 8);
    ctx.fillStyle = colours.surface;
    ctx.beginPath();
    ctx.roundRect(x, y, side, side, radius);
    ctx.fill();
    this.#drawPods(node, state, colour, x, y, side);
    const status = model.nodeState(node, state.at);
    ctx.strokeStyle = status === "deleting" || status === "not-ready" ? colours.bad : colour;
    ctx.lineWidth = 1.6;
    ctx.setLineDash(status === "ready" ? [] : [5, 3]);
    ctx.beginPath();
    ctx.roundRect(x + 0.8, y + 0.8, side - 1.6, side - 1.6, radius);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
  }

  /** How full it is, where pods would be too small to see: two rectangles without curves, as
   * thousands of them are drawn in a frame.
   * @param {number} node @param {State} state @param {string} colour @param {number} x
   * @param {number} y @param {number} side @param {number} alpha */
  #drawSmallNode(node, state, colour, x, y, side, alpha) {
    const { context: ctx, model } = this;
    const cpu = model.cpuOf[node] ? state.usedCpu[node] / model.cpuOf[node] : 0;
    const memory = model.memoryOf[node] ? state.usedMemory[node] / model.memoryOf[node] : 0;
    const full = Math.min(1, (cpu + memory) / 2) * side;
    ctx.fillStyle = colour;
    ctx.globalAlpha = 0.3 * alpha;
    ctx.fillRect(x, y, side, side - full);
    ctx.globalAlpha = alpha;
    ctx.fillRect(x, y + side - full, side, full);
    ctx.globalAlpha = 1;
  }

  /** @param {number} node @param {State} state @param {number} side
   * @returns {{top: number, inner: number, height: number}} */
  #insideOf(node, state, side) {
    const top = side >= LABEL_FROM ? 20 : 2;
    const status = this.model.nodeState(node, state.at);
    return { top: status === "launching" ? Math.min(top, side / 3) : top, inner: side - 4, height: side - 4 - top };
  }

  /** The pods on a node and where they are drawn.
   * @param {number} node @param {State} state @param {number} x @param {number} y @param {number} side */
  #tiles(node, state, x, y, side) {
    const pods = this.model.podsOn(node, state.at);
    const { top, inner, height } = this.#insideOf(node, state, side);
    const weights = pods.map((pod) => Math.max(this.model.shareOf(pod, node), 0.004));
    const full = Math.min(1, weights.reduce((sum, each) => sum + each, 0));
    const boxes = squarify(weights, x + 2, y + 2 + top + height * (1 - full), inner, height * full);
    return pods.map((pod, n) => ({ pod, box: boxes[n] })).filter(({ box }) => box);
  }

  /** @param {number} node @param {State} state @param {string} colour @param {number} x
   * @param {number} y @param {number} side */
  #drawPods(node, state, colour, x, y, side) {
    const { context: ctx, model } = this;
    const { colours } = /** @type {Theme} */ (this.theme);
    const alpha = ctx.globalAlpha;
    for (const { pod, box } of this.#tiles(node, state, x, y, side)) {
      const record = model.pods[pod];
      const isEnding = model.stopped[pod] <= state.at;
      ctx.globalAlpha = alpha * (record.daemon ? 0.45 : isEnding ? 0.4 : model.started[pod] <= state.at ? 0.9 : 0.6);
      const own = this.colouring === "workload" ? this.colours.get(record.owner) ?? colour : colour;
      ctx.fillStyle = record.daemon ? colours.other : own;
      const gap = box.width > 5 && box.height > 5 ? 1 : 0;
      ctx.beginPath();
      ctx.roundRect(box.x + gap / 2, box.y + gap / 2, Math.max(box.width - gap, 0.5), Math.max(box.height - gap, 0.5), gap ? 2 : 0);
      ctx.fill();
      ctx.globalAlpha = alpha;
      if (box.width > 44 && box.height > 15 && !record.daemon) {
        const name = record.name.slice(record.name.indexOf("/") + 1, record.name.indexOf("/") + 65);
        this.#drawLabel(name, box.x + 5, box.y + Math.min(box.height / 2, 10), box.width - 8, isEnding ? colours.text : inkOn(own), "left", "11px");
      }
    }
    ctx.globalAlpha = alpha;
    if (side >= LABEL_FROM) this.#drawNodeLabel(node, state, x, y, side);
  }

  /** @param {number} node @param {State} state @param {number} x @param {number} y @param {number} side */
  #drawNodeLabel(node, state, x, y, side) {
    const { colours } = /** @type {Theme} */ (this.theme);
    const record = this.model.nodes[node];
    const price = this.model.hourlyText(node, state.at);
    const label = record.instanceType || this.model.nodeLabel(node);
    const isWide = side >= 124;
    this.#drawLabel(label, x + 6, y + 13, side - (isWide ? 66 : 9), colours.text, "left", "600 11px", label.replace("xlarge", "xl"));
    if (isWide) this.#drawLabel(price, x + side - 7, y + 13, 60, colours.muted, "right", "11px");
  }

  /** Text that fits, or none.
   * @param {string} text @param {number} x @param {number} y @param {number} width
   * @param {string} colour @param {CanvasTextAlign} align @param {string} font
   * @param {string} [brief] what it is called where there is less room */
  #drawLabel(text, x, y, width, colour, align, font, brief = text) {
    const { context: ctx } = this;
    if (width < 14) return;
    ctx.font = `${font} ${FONT}`;
    ctx.fillStyle = colour;
    ctx.textAlign = align;
    const isLong = text.length > 200 || ctx.measureText(text).width > width;
    let shown = isLong ? shorten(brief, Math.max(2, Math.floor(width / 4.5))) : text;
    while (ctx.measureText(shown).width > width && [...shown].length > 2) shown = shorten(brief, [...shown].length - 1);
    if (ctx.measureText(shown).width <= width) ctx.fillText(isolated(shown), x, y);
    ctx.textAlign = "left";
  }

  /** @param {State} state */
  #drawSelection(state) {
    const box = this.#selectedBox(state);
    if (!box || !this.theme) return;
    const { context: ctx } = this;
    ctx.strokeStyle = this.theme.colours.text;
    ctx.lineWidth = 2.5;
    ctx.beginPath();
    ctx.roundRect(box.x - 2, box.y - 2, box.width + 4, box.height + 4, 6);
    ctx.stroke();
  }

  /** @param {State} state */
  #selectedBox(state) {
    const { selection, camera } = this;
    if (!selection) return null;
    const node = selection.kind === "node" ? selection.number : this.model.nodeOf[selection.number];
    const slot = this.layout?.slotOf.get(node);
    if (!slot || !state.isPresent[node]) return null;
    const side = slot.side * camera.scale;
    const x = (slot.x - camera.x) * camera.scale;
    const y = (slot.y - camera.y) * camera.scale;
    if (selection.kind === "node" || side < PODS_FROM) return { x, y, width: side, height: side };
    return this.#tiles(node, state, x, y, side).find(({ pod }) => pod === selection.number)?.box ?? null;
  }

  /** @param {Slot} slot @param {State} state */
  #nodeIn(slot, state) {
    for (let n = slot.nodes.length - 1; n >= 0; n -= 1) {
      if (state.isPresent[slot.nodes[n]]) return slot.nodes[n];
    }
    return -1;
  }

  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  #isVisible(x, y, width, height) {
    return x + width >= 0 && y + height >= 0 && x <= this.size.width && y <= this.size.height;
  }

  // What is where

  /** @param {number} x @param {number} y @returns {Selection | null} */
  hit(x, y) {
    const { camera, model } = this;
    const [px, py] = [x / camera.scale + camera.x, y / camera.scale + camera.y];
    for (const group of this.layout?.groups ?? []) {
      if (px < group.x || py < group.y || px > group.x + group.width || py > group.y + group.height) continue;
      for (const slot of group.slots) {
        if (px < slot.x || py < slot.y || px > slot.x + slot.side || py > slot.y + slot.side) continue;
        const node = this.#nodeIn(slot, model.state);
        if (node < 0) return null;
        return this.#podAt(node, slot, x, y) ?? { kind: "node", number: node };
      }
    }
    return null;
  }

  /** @param {number} node @param {Slot} slot @param {number} x @param {number} y @returns {Selection | null} */
  #podAt(node, slot, x, y) {
    const { camera } = this;
    const side = slot.side * camera.scale;
    if (side < PODS_FROM) return null;
    const left = (slot.x - camera.x) * camera.scale;
    const top = (slot.y - camera.y) * camera.scale;
    const tile = this.#tiles(node, this.model.state, left, top, side).find(
      ({ box }) => x >= box.x && y >= box.y && x <= box.x + box.width && y <= box.y + box.height,
    );
    return tile && !this.model.isDaemon[tile.pod] ? { kind: "pod", number: tile.pod } : null;
  }

  /** One line on what is under the pointer.
   * @param {Selection} selection */
  describe(selection) {
    const { model } = this;
    if (selection.kind === "pod") {
      const pod = model.pods[selection.number];
      return `${shorten(pod.name, 80)} on ${shorten(model.nodeLabel(model.nodeOf[selection.number]), 60)}`;
    }
    const node = model.nodes[selection.number];
    const { state } = model;
    const cpu = formatShare(state.usedCpu[selection.number], model.cpuOf[selection.number]);
    const memory = formatShare(state.usedMemory[selection.number], model.memoryOf[selection.number]);
    const price = model.hourlyText(selection.number, state.at);
    const name = shorten(model.nodeLabel(selection.number), 60);
    const what = [node.instanceType, model.capacityOf(selection.number, state.at)[0], node.zone].filter(Boolean).join(", ");
    return `${name}: ${what}, cpu ${cpu}, memory ${memory}, ${formatCount(state.podCount[selection.number], "pod")}, ${price}`;
  }

  // Mouse and keys

  #listen() {
    const { canvas } = this;
    /** @type {{x: number, y: number, moved: boolean} | null} */
    let pressed = null;
    canvas.addEventListener("pointerdown", (event) => {
      pressed = { x: event.offsetX, y: event.offsetY, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      const target = this.hit(event.offsetX, event.offsetY);
      canvas.title = pressed?.moved || !target ? "" : this.describe(target);
      if (!pressed) return;
      const [dx, dy] = [event.offsetX - pressed.x, event.offsetY - pressed.y];
      if (!pressed.moved && Math.hypot(dx, dy) < 4) return;
      if (this.camera.scale > 1) {
        this.#moveCamera(this.camera.x - dx / this.camera.scale, this.camera.y - dy / this.camera.scale, this.camera.scale);
      }
      pressed = { x: event.offsetX, y: event.offsetY, moved: true };
    });
    canvas.addEventListener("pointerup", (event) => {
      if (pressed && !pressed.moved) this.onSelect(this.hit(event.offsetX, event.offsetY));
      pressed = null;
    });
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && this.camera.scale === 1 && event.deltaY > 0) return;
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** @param {number} factor @param {number} [x] @param {number} [y] */
  zoom(factor, x = this.size.width / 2, y = this.size.height / 2) {
    const { camera } = this;
    const scale = Math.min(MAX_SCALE, Math.max(1, camera.scale * factor));
    this.#moveCamera(camera.x + x / camera.scale - x / scale, camera.y + y / camera.scale - y / scale, scale);
  }

  /** @param {number} x @param {number} y @param {number} scale */
  #moveCamera(x, y, scale) {
    const width = this.size.width * (1 - 1 / scale);
    const height = Math.max(0, Math.max(this.layout?.height ?? 0, this.size.height) - this.size.height / scale);
    this.camera = { x: Math.min(Math.max(x, 0), width), y: Math.min(Math.max(y, 0), height), scale };
    this.draw(this.model.state);
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    const directions = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    const direction = /** @type {Record<string, number[]>} */ (directions)[event.key];
    if (direction) this.#step(direction[0], direction[1]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.5);
    else if (event.key === "-") this.zoom(1 / 1.5);
    else if (event.key === "0") this.#moveCamera(0, 0, 1);
    else if (event.key === "Escape") this.onSelect(null);
    else if (event.key === "Enter") this.#stepPod(1);
    else return;
    event.preventDefault();
  }

  /** The next node in a direction; the first where none is selected.
   * @param {number} dx @param {number} dy */
  #step(dx, dy) {
    const { model, layout } = this;
    if (!layout) return;
    const here = this.selection && (this.selection.kind === "node" ? this.selection.number : model.nodeOf[this.selection.number]);
    const from = here === null ? undefined : layout.slotOf.get(here);
    const present = layout.groups.flatMap((group) => group.slots).map((slot) => ({ slot, node: this.#nodeIn(slot, model.state) }));
    const others = present.filter(({ node }) => node >= 0 && node !== here);
    if (!from) {
      if (others.length) this.onSelect({ kind: "node", number: others[0].node });
      return;
    }
    let [best, least] = [-1, Infinity];
    for (const { slot, node } of others) {
      const [x, y] = [slot.x + slot.side / 2 - from.x - from.side / 2, slot.y + slot.side / 2 - from.y - from.side / 2];
      const along = x * dx + y * dy;
      const across = Math.abs(x * dy) + Math.abs(y * dx);
      if (along > 0.5 && along + across * 3 < least) [best, least] = [node, along + across * 3];
    }
    if (best >= 0) this.onSelect({ kind: "node", number: best });
  }

  /** The pods of the selected node, one after the other.
   * @param {number} by */
  #stepPod(by) {
    const { selection, model } = this;
    if (!selection) return;
    const node = selection.kind === "node" ? selection.number : model.nodeOf[selection.number];
    const pods = model.podsOn(node, model.state.at).filter((pod) => !model.isDaemon[pod]);
    if (!pods.length) return;
    const place = selection.kind === "pod" ? pods.indexOf(selection.number) : -1;
    const next = pods[place + by];
    this.onSelect(next === undefined ? { kind: "node", number: node } : { kind: "pod", number: next });
  }

  /** Brings a node into view where the picture is enlarged.
   * @param {number} node */
  reveal(node) {
    const slot = this.layout?.slotOf.get(node);
    if (!slot || this.camera.scale === 1) return;
    const { scale } = this.camera;
    this.#moveCamera(
      slot.x + slot.side / 2 - this.size.width / scale / 2,
      slot.y + slot.side / 2 - this.size.height / scale / 2,
      scale,
    );
  }
}
