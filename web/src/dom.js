/** Elements made of text: nothing of the data is ever read as HTML. */

/**
 * @typedef {Node | string | null | false} Child
 */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, unknown>} [properties] attributes; functions are listeners
 * @param {(Child | Child[])[]} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") {
      made.addEventListener(name, /** @type {EventListener} */ (value));
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(made, children);
  return made;
}

/** @param {Element} parent @param {(Child | Child[])[]} children */
export function append(parent, children) {
  for (const child of children.flat()) {
    if (child !== null && child !== false) parent.append(child);
  }
}

/** @param {Element} parent @param {(Child | Child[])[]} children */
export function replaceChildren(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

/** Text of the input, isolated from the direction of what is around it.
 * @param {string} text @param {string} [className] */
export function foreign(text, className = "") {
  return element("bdi", className ? { class: className } : {}, text);
}

/** @template {Element} T @param {string} id @param {new () => T} type @returns {T} */
export function byId(id, type) {
  const found = document.getElementById(id);
  if (!(found instanceof type)) throw new Error(`the page has no ${id}`);
  return found;
}
