// Use: classify new photos, export the model, sort all photos, take the labels away.

import { get, post, upload } from "./api.js";
import { colour, count, h, percent, plain, put, putNew } from "./dom.js";
import { attempt, bar, busy, nothing } from "./parts.js";
import { store } from "./store.js";

const POLL = { busy: 700, idle: 2000 }; // milliseconds
const card = (id, title, sentence, ...content) =>
  h(
    "section",
    { class: "card", "aria-labelledby": id },
    h("h2", { id }, title),
    h("p", { class: "soft" }, sentence),
    content,
  );
// A path as a shell reads it.
const quoted = (path) => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
const colourOf = (name) => colour(store.classes.find((each) => each[1] === name)?.[0] ?? 1);

async function classify(file, answers) {
  const box = h("div", { class: "answer" }, busy("Looking …"));
  const image = h("img", { alt: "", src: URL.createObjectURL(file), onerror: () => image.remove() });
  answers.prepend(h("li", { class: "card" }, image, box));
  try {
    const {
      predictions: [found],
    } = await upload("/api/predict", file);
    if (found.error) throw new Error(found.error);
    put(
      box,
      h("p", { class: "answer-label" }, found.label),
      h("p", { class: "soft" }, file.name, found.group !== found.label ? ` · grouped by name: ${found.group}` : null),
      h(
        "ul",
        { class: "bars" },
        found.top.map((each) => bar(each.label, each.confidence, colourOf(each.label), percent(each.confidence, 1))),
      ),
    );
  } catch (error) {
    put(box, h("p", { class: "bad" }, `${file.name}: ${error.message}`));
  }
}

function dropZone(answers) {
  const picker = h("input", {
    type: "file",
    accept: "image/*",
    multiple: true,
    class: "visually-hidden",
    id: "pick",
    onchange: () => {
      for (const file of picker.files) classify(file, answers);
      picker.value = "";
    },
  });
  const zone = h(
    "label",
    { class: "drop", for: "pick" },
    h("b", {}, "Drop photos here"),
    h("span", {}, "or choose some from this computer"),
    picker,
  );
  for (const name of ["dragover", "drop", "dragleave"]) {
    zone.addEventListener(name, (event) => {
      event.preventDefault();
      zone.classList.toggle("over", name === "dragover");
      if (name === "drop") for (const file of event.dataTransfer.files) classify(file, answers);
    });
  }
  return zone;
}

function outcome(found) {
  const phase = found.phase?.total ? ` ${plain(found.phase.done)} of ${plain(found.phase.total)}` : "";
  if (found.state === "running") return busy(`${found.phase?.what ?? found.messages?.at(-1) ?? "starting"}${phase}`);
  if (found.state === "failed") return h("p", { class: "notice bad", role: "alert" }, found.error);
  if (found.state !== "finished") return h("p", { class: "notice" }, "Stopped.");
  const missing = found.missing ? ` ${count(found.missing, "photo is", "photos are")} gone.` : "";
  const done =
    found.photos !== undefined
      ? `${count(found.photos, "photo is", "photos are")} sorted.${missing}`
      : `Written, and the same as torch on ${count(found.images, "photo")}.`;
  return [h("p", { class: "notice good" }, done), found.files.map((file) => h("p", {}, h("code", {}, file)))];
}

export function usePage() {
  let isClosed = false,
    link = false,
    least = 0.9;
  const answers = h("ul", { class: "answers", "aria-live": "polite" }),
    boxes = { onnx: h("div"), sort: h("div") };

  function draw(found) {
    for (const [kind, box] of Object.entries(boxes)) {
      putNew(box, found[kind] ?? null, () => (found[kind] ? outcome(found[kind]) : null));
    }
    return Object.values(found).some((each) => each.state === "running");
  }

  const begin = (values) => attempt(async () => draw(await post("/api/exports", values)));

  async function poll() {
    while (!isClosed) {
      let isBusy = false;
      try {
        isBusy = draw(await get("/api/exports"));
      } catch {
        /* the banner says that the Studio does not answer */
      }
      await new Promise((resolve) => {
        setTimeout(resolve, isBusy ? POLL.busy : POLL.idle);
      });
    }
  }

  const share = h("output", {}, percent(least));
  const slider = h("input", {
    type: "range",
    min: 0.5,
    max: 0.99,
    step: 0.01,
    value: least,
    "aria-label": "Confidence from which an answer is sure",
    oninput: (event) => {
      least = Number(event.target.value);
      share.textContent = percent(least);
    },
  });
  const links = h("input", {
    type: "checkbox",
    onchange: (event) => {
      link = event.target.checked;
    },
  });
  const hasModel = store.finished > 0;
  const model = () => [
    card(
      "try-title",
      "Classify new photos",
      "They are looked at on this computer and not kept.",
      dropZone(answers),
      answers,
    ),
    h(
      "div",
      { class: "stack" },
      card(
        "onnx-title",
        "Take the model with you",
        "An ONNX file that runs without SemCo, compared with torch, and a model card.",
        h(
          "button",
          { class: "primary", id: "export-onnx", onclick: () => begin({ kind: "onnx" }) },
          "Export the model",
        ),
        boxes.onnx,
      ),
      card(
        "sort-title",
        "Sort all photos",
        "A folder per class: your labels and sure answers in sure/, the others in unsure/. Your photos are not moved.",
        h("div", { class: "field" }, h("span", {}, "Sure from ", share), slider),
        h("div", { class: "field" }, h("label", { class: "check" }, links, "Links instead of copies")),
        h("button", { id: "export-sort", onclick: () => begin({ kind: "sort", least, link }) }, "Sort the photos"),
        boxes.sort,
      ),
    ),
  ];
  const labels = card(
    "csv-title",
    "Your labels as a table",
    "Path and class of every labelled photo, as semco train reads it.",
    h("pre", {}, `semco train ${quoted(store.root)} --labels-from labels.csv`),
    h("a", { class: "button", href: "/labels.csv", download: "labels.csv" }, "Download labels.csv"),
  );
  const none = h(
    "section",
    { class: "card" },
    nothing(
      "h2",
      "There is no model yet",
      "After the first round you can classify new photos and export the model here.",
      "#train",
      "Train a round →",
    ),
  );
  const element = h(
    "div",
    { class: "page" },
    h(
      "header",
      { class: "intro" },
      h("h1", {}, "Use the model"),
      hasModel ? h("p", { class: "lead" }, `This is the model of round ${store.finished}.`) : null,
    ),
    h("div", { class: "two" }, hasModel ? model() : none),
    labels,
  );
  if (hasModel) poll();
  return {
    element,
    update: () => undefined,
    close: () => {
      isClosed = true;
    },
  };
}
