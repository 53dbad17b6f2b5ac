// Small helpers to make elements and texts. No text is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
// Replace the children of an element; null and false are left out.
export const put = (element, ...children) => {
  element.replaceChildren();
  return fill(element, null, children);
};
// Replace the children only if they show something else: the element that has the focus stays.
export const putNew = (element, shown, make) => {
  const key = JSON.stringify(shown);
  if (element.shown === key) return;
  element.shown = key;
  put(element, make());
};
// Set a text only if it is another one: a screen reader reads every change of a live region.
export const say = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};
export const find = (selector, root = document) => root.querySelector(selector);

// Pictures are drawn for a wide or a narrow card, so that their text does not shrink on a phone.
export const isNarrow = () => matchMedia("(max-width: 600px)").matches;

export const percent = (part, digits = 0) => `${(100 * part).toFixed(digits)} %`;
export const plain = (number) => number.toLocaleString("en");
export const count = (number, one, many = `${one}s`) => `${plain(number)} ${number === 1 ? one : many}`;

export function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

// White text is readable on each of them, and each can be told from a white and from a dark page.
const COLOURS = [
  "#2f6fd6",
  "#b85c14",
  "#1f7f55",
  "#a13fa1",
  "#8a6a00",
  "#0f7c92",
  "#c9305a",
  "#6355e0",
  "#55791d",
  "#8f5a38",
  "#4d6d8a",
  "#b94389",
];

// The colour of a class depends on its number, so that it stays when others are removed.
export const colour = (classNumber) => COLOURS[(classNumber - 1) % COLOURS.length];
