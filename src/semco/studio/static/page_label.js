// Label: a wall of photos, the classes beside it.

import { get } from "./api.js";
import { announce, count, h, say } from "./dom.js";
import { Palette } from "./palette.js";
import { openPreview } from "./preview.js";
import { label, store } from "./store.js";
import { Wall } from "./wall.js";

const ORDERS = [["diverse", "Varied"], ["useful", "Most useful"], ["name", "By name"]];
const SHOWN = [["no", "Without a label"], ["yes", "Labelled"], ["", "All"]];

export const confirmAnswers = async (pairs) => {
  const byClass = new Map();
  for (const [number, guess] of pairs) byClass.set(guess, [...(byClass.get(guess) ?? []), number]);
  await Promise.all([...byClass].map(([guess, numbers]) => label(numbers, guess)));
};

export function segmented(name, options, value, onchange) {
  const box = h("div", { class: "segmented", role: "radiogroup", "aria-label": name });
  const id = `seg${Math.random().toString(36).slice(2, 7)}`;
  for (const [key, text] of options) {
    box.append(h("label", {}, h("input", { type: "radio", name: id, value: key, checked: key === value, onchange: () => onchange(key) }), h("span", {}, text)));
  }
  return box;
}

export function labelPage() {
  const hasModel = store.finished > 0;
  const query = { order: hasModel ? "useful" : "diverse", labelled: "no", class: "", text: "", disagree: "", least: "0", most: "1" };
  const wall = new Wall("Photos", {
    label, confirm: confirmAnswers, preview: openPreview,
  });
  const palette = new Palette((classNumber) => { wall.assign(classNumber); wall.element.focus(); });
  palette.back = () => wall.element.focus();
  const status = h("p", { class: "status", role: "status" });
  const empty = h("div", { class: "empty", hidden: true });
  let isClosed = false, isDiverse = store.diverse[0] >= store.diverse[1];

  async function reload() {
    const parameters = new URLSearchParams({ order: query.order, labelled: query.labelled, text: query.text, disagree: query.disagree, least: query.least, most: query.most });
    if (query.class) parameters.set(query.labelled === "yes" ? "label" : "guesses", query.class);
    try {
      const view = await get(`/api/view?${parameters}`);
      if (isClosed) return;
      wall.show(view);
      update();
    } catch (error) { announce(error.message, "error"); }
  }

  function update() {
    wall.update();
    palette.update();
    const shown = wall.numbers.length;
    say(status, `${count(shown, "photo")} shown · ${count(store.labels.size, "label")} of ${count(store.photos, "photo")}`
      + (wall.selected.size ? ` · ${wall.selected.size} selected` : "")
      + (query.order === "diverse" && store.diverse[0] < store.diverse[1] ? ` · choosing a varied selection, ${store.diverse[0]} of ${store.diverse[1]} looked at` : ""));
    empty.hidden = shown > 0;
    empty.replaceChildren(h("h2", {}, "No photo fits"), h("p", {}, "Choose another selection above."));
    noClasses.hidden = store.classes.length > 0;
  }

  const noClasses = h("div", { class: "notice", hidden: true }, "There are no classes yet. ", h("a", { href: "#classes" }, "Name the classes first"), ".");
  const set = (name) => (value) => { query[name] = value; reload(); };
  const orders = hasModel ? ORDERS : ORDERS.filter(([key]) => key !== "useful");
  const classFilter = h("select", { "aria-label": "Class", onchange: (event) => set("class")(event.target.value) },
    h("option", { value: "" }, "Any class"), store.classes.map(([number, name]) => h("option", { value: number }, name)));
  let waiting = 0;
  const search = h("input", {
    type: "search", placeholder: "File name", "aria-label": "Part of the file name",
    oninput: (event) => { clearTimeout(waiting); waiting = setTimeout(() => set("text")(event.target.value), 200); },
  });
  const confidence = h("select", {
    "aria-label": "Confidence of the model",
    onchange: (event) => { [query.least, query.most] = event.target.value.split(" "); reload(); },
  }, [["0 1", "Any confidence"], ["0 0.5", "Below 50 %"], ["0.5 0.9", "50 to 90 %"], ["0.9 1", "90 % or more"]].map(([value, text]) => h("option", { value }, text)));
  const disagree = h("label", { class: "check" }, h("input", { type: "checkbox", onchange: (event) => set("disagree")(event.target.checked ? "yes" : "") }), "Heads disagree");
  const size = h("input", { type: "range", min: 90, max: 280, step: 10, value: wall.size, "aria-label": "Size of the photos", class: "size", oninput: (event) => wall.resize(Number(event.target.value)) });

  const element = h("div", { class: "work" },
    h("section", { class: "stage", "aria-label": "Photos" },
      h("div", { class: "bar-top" },
        segmented("Order", orders, query.order, set("order")), segmented("Shown", SHOWN, query.labelled, set("labelled")),
        h("details", { class: "filters" }, h("summary", {}, "Filter"), h("div", { class: "filter-box" }, search, classFilter, hasModel ? [confidence, disagree] : null)), size),
      noClasses, empty, wall.element,
      h("div", { class: "bar-bottom" }, status, h("p", { class: "keys" }, h("kbd", {}, "1"), "–", h("kbd", {}, "9"), " label  ", h("kbd", {}, "←↑↓→"), " move  ", h("kbd", {}, "Space"), " large  ",
        hasModel ? [h("kbd", {}, "Enter"), " confirm  "] : null, h("kbd", {}, "X"), " select  ", h("kbd", {}, "0"), " no label  ", h("kbd", {}, "U"), " undo"))),
    palette.element);
  wall.element.addEventListener("pointerup", () => setTimeout(update));
  wall.element.addEventListener("keyup", () => update());
  reload().then(() => wall.element.focus({ preventScroll: true }));
  return {
    element,
    wall,
    update: (what) => {
      update();
      const isReady = store.diverse[0] >= store.diverse[1];
      if (isReady && !isDiverse) { isDiverse = true; if (query.order === "diverse" && store.labels.size === 0) reload(); }
      if (what.classes) classFilter.replaceChildren(h("option", { value: "" }, "Any class"), ...store.classes.map(([number, name]) => h("option", { value: number }, name)));
    },
    close: () => { isClosed = true; wall.close(); },
    title: "Label",
  };
}
