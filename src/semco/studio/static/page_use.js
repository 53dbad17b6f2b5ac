// Use: classify new photos, export the model, sort all photos, take the labels away.

import { get, post, upload } from "./api.js";
import { announce, colour, h, percent } from "./dom.js";
import { store } from "./store.js";

export function usePage() {
  let isClosed = false, link = false, least = 0.9;
  const answers = h("ul", { class: "answers", "aria-live": "polite" }), exportsBox = { onnx: h("div"), sort: h("div") };
  const picker = h("input", { type: "file", accept: "image/*", multiple: true, class: "visually-hidden", id: "pick", onchange: () => { [...picker.files].forEach(classify); picker.value = ""; } });
  const drop = h("label", { class: "drop", for: "pick" }, h("b", {}, "Drop photos here"), h("span", {}, "or choose some from this computer"), picker);
  for (const name of ["dragover", "drop", "dragleave"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop") [...event.dataTransfer.files].forEach(classify);
    });
  }
  const numberOf = (name) => store.classes.find((each) => each[1] === name)?.[0] ?? 1;

  async function classify(file) {
    const box = h("div", { class: "answer" }, h("p", { class: "soft" }, "…")), image = h("img", { alt: file.name });
    image.src = URL.createObjectURL(file);
    answers.prepend(h("li", { class: "card" }, image, box));
    try {
      const { predictions: [found] } = await upload("/api/predict", file);
      if (found.error) throw new Error(found.error);
      box.replaceChildren(h("p", { class: "answer-label" }, found.label), h("p", { class: "soft" }, found.group !== found.label ? `${file.name} · look-alikes: ${found.group}` : file.name),
        h("ul", { class: "bars" }, found.top.map((each) => h("li", {}, h("span", { class: "name" }, each.label), h("span", { class: "track" }, h("i", { style: { width: percent(each.confidence, 1).replace(" ", ""), background: colour(numberOf(each.label)) } })), h("b", {}, percent(each.confidence, 1))))));
    } catch (error) { box.replaceChildren(h("p", { class: "bad" }, `${file.name}: ${error.message}`)); }
  }

  const begin = (values) => async () => { try { draw(await post("/api/exports", values())); } catch (error) { announce(error.message, "error"); } };

  function state(box, found) {
    if (!found) { box.replaceChildren(); return; }
    const phase = found.phase?.total ? ` ${found.phase.done} of ${found.phase.total}` : "";
    if (found.state === "running") box.replaceChildren(h("p", { class: "soft" }, h("span", { class: "spinner", "aria-hidden": "true" }), ` ${found.phase?.what ?? found.messages?.at(-1) ?? "Starting"}${phase}`));
    else if (found.state === "failed") box.replaceChildren(h("p", { class: "notice bad", role: "alert" }, found.error));
    else if (found.state === "finished") box.replaceChildren(h("p", { class: "notice good" }, found.photos !== undefined ? `${found.photos} photos are sorted. ` : `Written, and equal to torch on ${found.images} photos. `), ...found.files.map((file) => h("p", {}, h("code", {}, file))));
    else box.replaceChildren(h("p", { class: "notice" }, "Stopped."));
  }

  function draw(found) { for (const [kind, box] of Object.entries(exportsBox)) state(box, found[kind]); return Object.values(found).some((each) => each.state === "running"); }

  async function poll() {
    while (!isClosed) {
      let isBusy = false;
      try { isBusy = draw(await get("/api/exports")); } catch { /* the banner says that the Studio does not answer */ }
      await new Promise((resolve) => setTimeout(resolve, isBusy ? 700 : 2000));
    }
  }

  const share = h("output", {}, percent(least));
  const slider = h("input", { type: "range", min: 0.5, max: 0.99, step: 0.01, value: least, "aria-label": "Confidence from which an answer is sure", oninput: (event) => { least = Number(event.target.value); share.textContent = percent(least); } });
  const hasModel = store.finished > 0, commands = `semco train ${store.root} --labels-from labels.csv`;
  const model = [
    h("section", { class: "card", "aria-labelledby": "try-title" }, h("h2", { id: "try-title" }, "Classify new photos"), drop, answers),
    h("div", { class: "stack" },
      h("section", { class: "card", "aria-labelledby": "onnx-title" }, h("h2", { id: "onnx-title" }, "Take the model with you"), h("p", { class: "soft" }, "An ONNX file that runs without SemCo, checked against torch, and a model card."),
        h("button", { class: "primary", id: "export-onnx", onclick: begin(() => ({ kind: "onnx" })) }, "Export the model"), exportsBox.onnx),
      h("section", { class: "card", "aria-labelledby": "sort-title" }, h("h2", { id: "sort-title" }, "Sort all photos"), h("p", { class: "soft" }, "A folder per class: your labels and sure answers in sure/, the others in unsure/. The photos themselves are not touched."),
        h("div", { class: "field" }, h("span", {}, "Sure from ", share), slider),
        h("div", { class: "field" }, h("label", { class: "check" }, h("input", { type: "checkbox", onchange: (event) => { link = event.target.checked; } }), "Links instead of copies")),
        h("button", { id: "export-sort", onclick: begin(() => ({ kind: "sort", least, link })) }, "Sort the photos"), exportsBox.sort))];
  const labels = h("section", { class: "card", "aria-labelledby": "csv-title" }, h("h2", { id: "csv-title" }, "Your labels as a table"), h("p", { class: "soft" }, "Path and class of every labelled photo, as semco train reads it."),
    h("pre", {}, commands), h("a", { class: "button", href: "/labels.csv", download: "labels.csv" }, "Download labels.csv"));
  const none = h("section", { class: "card empty" }, h("h2", {}, "There is no model yet"), h("p", {}, "After the first round you can classify new photos and export the model here."), h("a", { class: "button primary", href: "#train" }, "Train a round →"));
  const element = h("div", { class: "page" }, h("header", { class: "intro" }, h("h1", {}, "Use the model"), hasModel ? h("p", { class: "lead" }, `The model of round ${store.finished}.`) : null),
    h("div", { class: "two" }, hasModel ? model : none), labels);
  if (hasModel) poll();
  return { element, title: "Use", update: () => undefined, close: () => { isClosed = true; } };
}
