// Parts that several pages show: messages, bars, badges, rows of choices, empty pages.

import { colour, count, find, h, percent } from "./dom.js";

const SECONDS = { note: 4, error: 12, found: 30 }; // how long a message stays

export function announce(sentence, kind = "note", action = null) {
  const box = find("#toasts");
  const act = () => {
    toast.remove();
    action.run();
  };
  const toast = h(
    "div",
    { class: `toast ${kind}` },
    h("span", {}, sentence),
    action && h("button", { class: "quiet", onclick: act }, action.name),
    h("button", { class: "quiet close", "aria-label": "Close", onclick: () => toast.remove() }, "×"),
  );
  box.append(toast);
  while (box.children.length > 3) box.firstChild.remove();
  setTimeout(() => toast.remove(), 1000 * SECONDS[kind]);
}

// Do something that may fail; a failure is shown as a message.
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    announce(error.message, "error");
    return null;
  }
}

// One row of a list of bars: a name, the part of the track that is filled, and the number itself.
export const bar = (name, part, fill, text) =>
  h(
    "li",
    {},
    h("span", { class: "name", title: name }, name),
    h("span", { class: "track" }, h("i", { style: { width: `${100 * part}%`, background: fill } })),
    h("b", {}, text),
  );

export const badge = (classNumber, name, kind = "", share = null) =>
  h(
    "span",
    { class: `badge ${kind}`, style: { "--own": colour(classNumber) } },
    h("i"),
    h("span", { class: "text" }, name),
    share && h("span", { class: "share" }, share),
  );

export const busy = (text) =>
  h("p", { class: "soft" }, h("span", { class: "spinner", "aria-hidden": "true" }), ` ${text}`);

// A page or a card with nothing to show: what will be there, and where to go first.
export const nothing = (heading, title, sentence, href, action) =>
  h(
    "div",
    { class: "empty" },
    h(heading, {}, title),
    h("p", {}, sentence),
    href ? h("a", { class: "button primary", href }, action) : null,
  );

// The accuracy of a model in the words of its report.
export const accuracyText = ({ value, low, high, photos }) =>
  `right for ${percent(value, 1)} of ${photos} (95 % interval ${Math.round(100 * low)} to ${percent(high)})`;

// What the model that follows the labels does.
export function liveText({ state, phase, error, accuracy, without_label: open, version }) {
  if (state === "off") return "";
  if (state !== "running" || error) return `The model does not follow the labels: ${error ?? state}`;
  if (phase?.total) return `The model looks at the photos: ${percent(phase.done / phase.total)}.`;
  if (open?.length) return `The model answers when every class has a label; ${count(open.length, "class", "classes")} left.`;
  if (accuracy) return `The model follows your labels: ${accuracyText(accuracy)}.`;
  return version ? "The model follows your labels." : "The model is being made ready.";
}

let groups = 0;

export function segmented(name, options, value, onchange) {
  groups += 1;
  const group = `choice${groups}`;
  const choice = ([key, text]) =>
    h(
      "label",
      {},
      h("input", {
        type: "radio",
        name: group,
        value: key,
        checked: key === value,
        onchange: () => onchange(key),
      }),
      h("span", {}, text),
    );
  return h("div", { class: "segmented", role: "radiogroup", "aria-label": name }, options.map(choice));
}
