// One photo, large, with the keys of the wall: arrows, numbers, Enter, space or Escape to close.

import { get } from "./api.js";
import { colour, find, h, put } from "./dom.js";
import { className, store } from "./store.js";

export function openPreview(wall) {
  const dialog = find("#preview");
  const image = h("img", { alt: "" }), caption = h("p", { class: "caption" }), classes = h("div", { class: "preview-classes" });
  const show = async () => {
    const number = wall.numbers[wall.cursor], answer = wall.guess(wall.cursor), label = store.labels.get(number);
    image.src = `/preview/${store.session}/${number}`;
    image.alt = wall.tiles.get(wall.cursor)?.getAttribute("aria-label") ?? `Photo ${number + 1}`;
    classes.replaceChildren(...store.classes.slice(0, 9).map(([each, name], place) => h("button", {
      class: "class-button", style: { "--own": colour(each) }, "aria-pressed": String(each === label), onclick: () => give(each),
    }, h("kbd", {}, String(place + 1)), h("span", { class: "name" }, name))));
    const { name } = await get(`/api/name/${number}`);
    put(caption, h("b", {}, name), label !== undefined ? ` · labelled ${className(label)}` : "",
      answer ? ` · model: ${className(answer.guess)}, ${answer.confidence} %` : "");
  };
  const give = (classNumber) => { wall.selected.clear(); wall.assign(classNumber); show(); };
  const step = (by) => { wall.moveTo(wall.cursor + by); show(); };
  image.addEventListener("error", () => caption.replaceChildren("This photo cannot be read."));
  dialog.onkeydown = (event) => {
    const chosen = event.key >= "1" && event.key <= "9" ? store.classes[Number(event.key) - 1] : null;
    if (event.key === "ArrowRight" || event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowLeft" || event.key === "ArrowUp") step(-1);
    else if (chosen) give(chosen[0]);
    else if (event.key === "0" || event.key === "Backspace") give(null);
    else if (event.key === "Enter" && event.target.tagName !== "BUTTON") { wall.selected.clear(); wall.confirm(); show(); }
    else if (event.key === " " && event.target.tagName !== "BUTTON") dialog.close();
    else return;
    event.preventDefault();
  };
  dialog.onclick = (event) => { if (event.target === dialog) dialog.close(); };
  dialog.onclose = () => wall.element.focus();
  dialog.replaceChildren(h("div", { class: "preview-body", tabindex: "-1" },
    h("button", { class: "quiet close", "aria-label": "Close", onclick: () => dialog.close() }, "×"),
    h("div", { class: "preview-image" }, h("button", { class: "quiet go", "aria-label": "Previous photo", onclick: () => step(-1) }, "‹"), image,
      h("button", { class: "quiet go", "aria-label": "Next photo", onclick: () => step(1) }, "›")), caption, classes));
  dialog.showModal();
  dialog.firstChild.focus();
  show();
}
