// The classes as buttons: a click, a key or photos dropped on one give a label. Used by the Label and the Review page.

import { colour, h } from "./dom.js";
import { labelCounts, store } from "./store.js";

export class Palette {
  constructor(assign) {
    this.assign = assign;
    this.list = h("ul", { class: "palette" });
    this.search = h("input", {
      type: "search", placeholder: "Find a class  ( / )", "aria-label": "Find a class", class: "find-class",
      oninput: () => this.update(), onkeydown: (event) => this.onKey(event),
    });
    this.element = h("aside", { class: "side", "aria-label": "Classes" }, this.search, this.list,
      h("p", { class: "hint" }, "Select photos, then press a number, click a class, or drag the photos onto it."));
    this.update();
  }

  onKey(event) {
    if (event.key !== "Enter" && event.key !== "Escape") return;
    const first = this.list.querySelector("button");
    if (event.key === "Enter" && first) first.click();
    this.search.value = "";
    this.update();
    this.back?.();
    event.preventDefault();
  }

  update() {
    const counts = labelCounts(), text = this.search.value.toLowerCase();
    this.search.hidden = store.classes.length <= 9;
    const rows = store.classes.map(([number, name], place) => ({ number, name, place })).filter((each) => each.name.toLowerCase().includes(text));
    const key = JSON.stringify([rows, [...counts]]);
    if (key === this.key) return;
    this.key = key;
    this.list.replaceChildren(...rows.map(({ number, name, place }) => h("li", {},
      h("button", {
        class: "class-button", "data-class": number, style: { "--own": colour(number) }, onclick: () => this.assign(number),
        title: `Label as ${name}`,
      }, h("kbd", { "aria-hidden": "true" }, place < 9 ? String(place + 1) : "·"), h("span", { class: "name" }, name),
      h("span", { class: "number", "aria-label": `${counts.get(number)} labelled` }, String(counts.get(number)))))));
  }
}
