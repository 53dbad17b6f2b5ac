// A blind check: random photos, one by one, without the answer of the model. Only these say how often it is right.

import { get } from "./api.js";
import { colour, count, find, h, put, say } from "./dom.js";
import { announce, attempt } from "./parts.js";
import { label, store } from "./store.js";

const PHOTOS = 20;

export const openCheck = (done) =>
  attempt(async () => {
    const { numbers } = await get("/api/view?order=random&labelled=no");
    const photos = numbers.slice(0, PHOTOS);
    if (!photos.length) {
      announce("Every photo has a label; there is nothing to check.");
      return;
    }
    let place = 0,
      last = Promise.resolve();
    const dialog = find("#preview"),
      image = h("img", { alt: "Photo to judge" }),
      progress = h("p", { class: "caption", role: "status" });

    const show = () => {
      if (place >= photos.length) {
        dialog.close();
        return;
      }
      image.src = `/preview/${store.session}/${photos[place]}`;
      say(progress, `Which class is this? Photo ${place + 1} of ${count(photos.length, "random photo")}.`);
    };
    const give = (classNumber) => {
      if (classNumber !== null) last = label([photos[place]], classNumber, true);
      place += 1;
      show();
    };
    const button = (each, name, key) =>
      h(
        "button",
        { class: "class-button", style: { "--own": each ? colour(each) : "var(--line)" }, onclick: () => give(each) },
        h("kbd", { "aria-hidden": "true" }, key),
        h("span", { class: "name" }, name),
      );

    dialog.onkeydown = (event) => {
      const chosen = event.key >= "1" && event.key <= "9" ? store.classes[Number(event.key) - 1] : null;
      if (chosen) give(chosen[0]);
      else if (event.key === "0") give(null);
      else return;
      event.preventDefault();
    };
    dialog.onclick = null;
    dialog.onclose = () => last.then(done);
    put(
      dialog,
      h(
        "div",
        { class: "preview-body", tabindex: "-1" },
        h("button", { class: "quiet close", "aria-label": "Close", onclick: () => dialog.close() }, "×"),
        h("div", { class: "preview-image" }, image),
        progress,
        h(
          "div",
          { class: "preview-classes" },
          store.classes.map(([each, name], index) => button(each, name, index < 9 ? String(index + 1) : "·")),
          button(null, "None of these: skip", "0"),
        ),
      ),
    );
    dialog.showModal();
    dialog.firstChild.focus();
    show();
  });
