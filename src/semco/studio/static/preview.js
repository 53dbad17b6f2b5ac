// One photo, large, with the keys of the wall: arrows, numbers, Enter, space or Escape to close.

import { getNewest } from "./api.js";
import { colour, find, h, put } from "./dom.js";
import { attempt } from "./parts.js";
import { className, store } from "./store.js";

export function openPreview(wall) {
  const dialog = find("#preview"),
    caption = h("p", { class: "caption" }),
    classes = h("div", { class: "preview-classes" }),
    get = getNewest();
  const image = h("img", { alt: "", onerror: () => put(caption, "This photo cannot be read.") });
  const give = (classNumber) => {
    wall.selected.clear();
    wall.assign(classNumber);
    show();
  };
  const confirm = () => {
    wall.selected.clear();
    wall.confirm();
    show();
  };
  const step = (by) => {
    wall.moveTo(wall.cursor + by);
    show();
  };

  const show = () =>
    attempt(async () => {
      const number = wall.numbers[wall.cursor],
        answer = wall.guess(wall.cursor),
        label = store.labels.get(number);
      image.src = `/preview/${store.session}/${number}`;
      image.alt = wall.tiles.get(wall.cursor)?.ariaLabel ?? `Photo ${number + 1}`;
      put(
        classes,
        store.classes.slice(0, 9).map(([each, name], place) =>
          h(
            "button",
            {
              class: "class-button",
              style: { "--own": colour(each) },
              "aria-pressed": String(each === label),
              onclick: () => give(each),
            },
            h("kbd", { "aria-hidden": "true" }, String(place + 1)),
            h("span", { class: "name" }, name),
          ),
        ),
      );
      const file = await get(`/api/name/${number}`);
      if (!file) return;
      put(
        caption,
        h("b", {}, file.name),
        label !== undefined ? ` · labelled ${className(label)}` : "",
        answer ? ` · model: ${className(answer.guess)}, ${answer.confidence} %` : "",
      );
    });

  dialog.onkeydown = (event) => {
    const chosen = event.key >= "1" && event.key <= "9" ? store.classes[Number(event.key) - 1] : null;
    const isOnButton = event.target.tagName === "BUTTON"; // which has its own Enter and space
    if (event.key === "ArrowRight" || event.key === "ArrowDown") step(1);
    else if (event.key === "ArrowLeft" || event.key === "ArrowUp") step(-1);
    else if (chosen) give(chosen[0]);
    else if (["0", "Backspace", "Delete"].includes(event.key)) give(null);
    else if (event.key === "Enter" && !isOnButton) confirm();
    else if (event.key === " " && !isOnButton) dialog.close();
    else return;
    event.preventDefault();
  };
  dialog.onclick = (event) => {
    if (event.target === dialog) dialog.close();
  };
  dialog.onclose = () => wall.element.focus();
  const button = (name, sign, onclick, kind) =>
    h("button", { class: `quiet ${kind}`, "aria-label": name, onclick }, sign);
  put(
    dialog,
    h(
      "div",
      { class: "preview-body", tabindex: "-1" },
      button("Close", "×", () => dialog.close(), "close"),
      h(
        "div",
        { class: "preview-image" },
        button("Previous photo", "‹", () => step(-1), "go"),
        image,
        button("Next photo", "›", () => step(1), "go"),
      ),
      caption,
      classes,
    ),
  );
  dialog.showModal();
  dialog.firstChild.focus();
  show();
}
