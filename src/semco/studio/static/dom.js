// Small helpers to make elements. No text is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
// Replace the children of an element; null and false are left out.
export const put = (element, ...children) => { element.replaceChildren(); return fill(element, null, children); };
// Set a text only if it is another one: a screen reader reads every change of a live region.
export const say = (element, text) => { if (element.textContent !== text) element.textContent = text; };
export const find = (selector, root = document) => root.querySelector(selector);

export const percent = (part, digits = 0) => `${(100 * part).toFixed(digits)} %`;
export const count = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

const COLOURS = ["#3b78e0", "#e0762b", "#2f9e6f", "#b04fb0", "#c39a12", "#1f9fb8", "#d8496a", "#7a6ff0", "#6f9a2e",
  "#9c6b4a", "#5b7c99", "#d05ca0"];

// The colour of a class depends on its number, so that it stays when others are removed.
export const colour = (classNumber) => COLOURS[(classNumber - 1) % COLOURS.length];

export function announce(sentence, kind = "note", action = null) {
  const box = find("#toasts");
  const toast = h("div", { class: `toast ${kind}` }, h("span", {}, sentence));
  if (action) {
    toast.append(h("button", { class: "quiet", onclick: () => { toast.remove(); action.run(); } }, action.name));
  }
  toast.append(h("button", { class: "quiet close", "aria-label": "Close", onclick: () => toast.remove() }, "×"));
  box.append(toast);
  while (box.children.length > 3) box.firstChild.remove();
  setTimeout(() => toast.remove(), kind === "error" ? 12000 : 4000);
}
