// The classes as buttons: a click, a key or photos dropped on one give a label. Used by the Label and the Review page.

import { colour, h } from "./dom.js";
import { labelCounts, store } from "./store.js";

export class Palette {
  // `assign` labels the chosen photos, `back` returns the focus to them; `children` follow the classes.
  constructor(assign, back, ...children) {
    this.assign = assign;
    this.back = back;
    this.list = h("ul", { class: "palette" });
    this.search = h("input", {
      type: "search",
      placeholder: "Find a class  ( / )",
      "aria-label": "Find a class",
      class: "find-class",
      oninput: () => this.update(),
      onkeydown: (event) => this.onKey(event),
    });
    this.element = h("aside", { class: "side", "aria-label": "Classes" }, this.search, this.list, children);
    this.update();
  }

  onKey(event) {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    if (event.key === "Enter") this.list.querySelector("button")?.click();
    this.search.value = "";
    this.update();
    this.back();
    event.preventDefault();
  }

  update() {
    const counts = labelCounts(),
      text = this.search.value.toLowerCase();
    this.search.hidden = store.classes.length <= 9;
    const rows = store.classes
      .map(([number, name], place) => ({ number, name, place, labels: counts.get(number) }))
      .filter((each) => each.name.toLowerCase().includes(text));
    const key = JSON.stringify(rows);
    if (key === this.key) return; // the element that has the focus stays
    this.key = key;
    this.list.replaceChildren(...rows.map((each) => h("li", {}, this.button(each))));
  }

  button({ number, name, place, labels }) {
    return h(
      "button",
      {
        class: "class-button",
        "data-class": number,
        style: { "--own": colour(number) },
        title: `Label as ${name}`,
        onclick: () => {
          this.assign(number);
          this.back();
        },
      },
      h("kbd", { "aria-hidden": "true" }, place < 9 ? String(place + 1) : "·"),
      h("span", { class: "name" }, name),
      h("span", { class: "number" }, String(labels), h("span", { class: "visually-hidden" }, " labelled")),
    );
  }
}
