// A wall of thumbnails of any length: only the visible rows are elements. A listbox for keyboards and screen readers.

import { colour, h } from "./dom.js";
import { className, store } from "./store.js";

const GAP = 8, ROWS_AHEAD = 2, MOVED = 6;

export class Wall {
  // `actions`: label(numbers, classNumber), confirm(numbers), preview(index); `name` is what a screen reader calls it.
  constructor(name, actions) {
    this.actions = actions;
    this.numbers = [];
    this.answers = {};
    this.selected = new Set();
    this.cursor = 0;
    this.anchor = 0;
    this.tiles = new Map();
    this.inner = h("div", { class: "wall-inner", role: "presentation" });
    this.band = h("div", { class: "band", hidden: true });
    this.element = h("div", {
      class: "wall", role: "listbox", tabindex: "0", "aria-label": name, "aria-multiselectable": "true",
    }, this.inner);
    this.inner.append(this.band);
    this.element.addEventListener("scroll", () => this.render(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("pointerdown", (event) => this.onPointer(event));
    this.element.addEventListener("dblclick", () => this.actions.preview(this));
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(this.element);
    this.size = Number(localStorage.getItem("semco-tile") || 150);
  }

  close() { this.observer.disconnect(); }

  show(view) {
    this.numbers = view.numbers;
    this.answers = view;
    this.selected.clear();
    this.cursor = this.anchor = 0;
    for (const tile of this.tiles.values()) tile.remove();
    this.tiles.clear();
    this.element.scrollTop = 0;
    this.layout();
  }

  resize(size) {
    this.size = size;
    localStorage.setItem("semco-tile", size);
    this.layout();
    this.reveal();
  }

  layout() {
    const width = this.element.clientWidth - 2 * GAP;
    if (width <= 0) return;
    const size = width < 520 ? Math.min(this.size, 108) : this.size;
    this.columns = Math.max(2, Math.floor((width + GAP) / (size + GAP)));
    this.side = Math.floor((width - GAP * (this.columns - 1)) / this.columns);
    this.step = this.side + GAP;
    this.inner.style.height = `${Math.ceil(this.numbers.length / this.columns) * this.step + GAP}px`;
    for (const [index, tile] of this.tiles) this.place(tile, index);
    this.render();
  }

  place(tile, index) {
    const x = GAP + (index % this.columns) * this.step, y = GAP + Math.floor(index / this.columns) * this.step;
    tile.style.width = tile.style.height = `${this.side}px`;
    tile.style.transform = `translate(${x}px, ${y}px)`;
  }

  render() {
    if (!this.step) return;
    const top = this.element.scrollTop, bottom = top + this.element.clientHeight;
    const first = Math.max(0, Math.floor(top / this.step) - ROWS_AHEAD) * this.columns;
    const last = Math.min(this.numbers.length, (Math.ceil(bottom / this.step) + ROWS_AHEAD) * this.columns);
    for (const [index, tile] of this.tiles) {
      if (index < first || index >= last) { tile.firstChild.removeAttribute("src"); tile.remove(); this.tiles.delete(index); }
    }
    for (let index = first; index < last; index += 1) {
      if (!this.tiles.has(index)) this.add(index);
    }
    this.update();
  }

  add(index) {
    const number = this.numbers[index];
    const image = h("img", { alt: "", draggable: "false", decoding: "async", src: `/thumbnail/${store.session}/${number}` });
    const tile = h("div", {
      class: "tile", role: "option", id: `${this.id}-${index}`, "aria-setsize": this.numbers.length, "aria-posinset": index + 1,
    }, image, h("span", { class: "mark", "aria-hidden": "true" }, "✓"), h("span", { class: "badges" }));
    image.addEventListener("error", () => {
      if (!image.getAttribute("src")) return;
      tile.classList.add("broken");
      tile.title = "This photo cannot be read.";
    });
    image.addEventListener("load", () => tile.classList.add("loaded"));
    tile.dataset.index = index;
    this.place(tile, index);
    this.tiles.set(index, tile);
    this.inner.append(tile);
  }

  get id() { this.ownId ??= `wall${Math.random().toString(36).slice(2, 7)}`; return this.ownId; }

  guess(index) {
    const guess = this.answers.guesses?.[index] ?? -1;
    return guess < 0 ? null : { guess, confidence: this.answers.confidence[index], other: this.answers.others[index] };
  }

  update() {
    for (const [index, tile] of this.tiles) this.updateTile(tile, index);
    this.element.setAttribute("aria-activedescendant", this.tiles.has(this.cursor) ? `${this.id}-${this.cursor}` : "");
  }

  updateTile(tile, index) {
    const number = this.numbers[index], label = store.labels.get(number) ?? null, answer = this.guess(index);
    const isSelected = this.selected.has(number), isCursor = index === this.cursor;
    const key = `${label}|${isSelected}|${isCursor}|${className(label)}|${answer?.guess}`;
    if (tile.key === key) return;
    tile.key = key;
    tile.classList.toggle("selected", isSelected);
    tile.classList.toggle("cursor", isCursor);
    tile.classList.toggle("labelled", label !== null);
    tile.setAttribute("aria-selected", isSelected);
    tile.setAttribute("aria-label", `Photo ${number + 1}${label !== null ? `, labelled ${className(label)}` : ", no label"}`
      + (answer ? `, model: ${className(answer.guess)} ${answer.confidence} percent` : ""));
    const badges = tile.querySelector(".badges");
    badges.replaceChildren();
    if (label !== null) badges.append(badge(label, className(label), "given"));
    else if (answer) {
      badges.append(badge(answer.guess, className(answer.guess), "guess", `${answer.confidence} %`));
      if (answer.other >= 0) badges.append(badge(answer.other, className(answer.other), "guess other"));
    }
  }

  // The photos that an action concerns: the selection, or the photo under the cursor.
  targets() {
    if (this.selected.size) return [...this.selected];
    return this.numbers.length ? [this.numbers[this.cursor]] : [];
  }

  assign(classNumber) {
    const numbers = this.targets();
    if (!numbers.length) return;
    this.actions.label(numbers, classNumber);
    this.advance(numbers);
  }

  confirm() {
    const chosen = new Set(this.targets());
    const pairs = this.numbers.map((number, index) => [number, this.guess(index)?.guess])
      .filter(([number, guess]) => chosen.has(number) && guess !== undefined);
    if (!pairs.length) return;
    this.actions.confirm(pairs);
    this.advance([...chosen]);
  }

  advance(numbers) {
    const done = new Set(numbers);
    let next = this.cursor;
    this.numbers.forEach((number, index) => { if (done.has(number)) next = Math.max(next, index); });
    this.selected.clear();
    for (let index = next; index < this.numbers.length; index += 1) {
      if (!store.labels.has(this.numbers[index]) && !done.has(this.numbers[index])) { next = index; break; }
    }
    this.moveTo(next);
  }

  moveTo(index, extend = false) {
    this.cursor = Math.max(0, Math.min(this.numbers.length - 1, index));
    if (extend) this.selectRange(this.anchor, this.cursor);
    else this.anchor = this.cursor;
    this.reveal();
    this.update();
  }

  selectRange(from, to) {
    this.selected = new Set(this.numbers.slice(Math.min(from, to), Math.max(from, to) + 1));
  }

  reveal() {
    const top = Math.floor(this.cursor / this.columns) * this.step, height = this.element.clientHeight;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + this.step + GAP > this.element.scrollTop + height) this.element.scrollTop = top + this.step + GAP - height;
    this.render();
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      if ((event.ctrlKey || event.metaKey) && event.key === "a") { this.selectRange(0, this.numbers.length - 1); this.update(); event.preventDefault(); }
      return;
    }
    const rows = Math.max(1, Math.floor(this.element.clientHeight / this.step) - 1);
    const moves = {
      ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns, PageUp: -rows * this.columns,
      PageDown: rows * this.columns, Home: -this.numbers.length, End: this.numbers.length,
    };
    if (event.key in moves) this.moveTo(this.cursor + moves[event.key], event.shiftKey);
    else if (event.key >= "1" && event.key <= "9") {
      const chosen = store.classes[Number(event.key) - 1];
      if (chosen) this.assign(chosen[0]);
    } else if (event.key === "0" || event.key === "Backspace" || event.key === "Delete") this.assign(null);
    else if (event.key === "Enter") this.confirm();
    else if (event.key === " ") this.actions.preview(this);
    else if (event.key === "x") this.toggle(this.cursor);
    else if (event.key === "Escape") { this.selected.clear(); this.update(); }
    else return;
    event.preventDefault();
  }

  toggle(index) {
    const number = this.numbers[index];
    if (!this.selected.delete(number)) this.selected.add(number);
    this.cursor = this.anchor = index;
    this.update();
  }

  indexAt(event) { const tile = event.target.closest?.(".tile"); return tile ? Number(tile.dataset.index) : -1; }

  click(index, event) {
    if (index < 0) { this.selected.clear(); this.update(); return; }
    if (event.shiftKey) { this.cursor = index; this.selectRange(this.anchor, index); this.update(); return; }
    if (event.ctrlKey || event.metaKey || event.pointerType === "touch") { this.toggle(index); return; }
    const isOnly = this.selected.size === 1 && this.selected.has(this.numbers[index]);
    this.selected = new Set(isOnly ? [] : [this.numbers[index]]);
    this.cursor = this.anchor = index;
    this.update();
  }

  // A press without movement is a click; with movement it drags selected photos to a class, or selects by a frame.
  onPointer(event) {
    if (event.button !== 0 || event.offsetX > this.element.clientWidth) return;
    this.element.focus({ preventScroll: true });
    const index = this.indexAt(event), start = { x: event.clientX, y: event.clientY };
    const isDrag = index >= 0 && this.selected.has(this.numbers[index]);
    const before = event.shiftKey || event.ctrlKey || event.metaKey ? new Set(this.selected) : new Set();
    const origin = this.inside(event);
    let moving = null;
    const move = (now) => {
      if (event.pointerType === "touch" && !isDrag) return;
      if (!moving && Math.hypot(now.clientX - start.x, now.clientY - start.y) < MOVED) return;
      moving ??= isDrag ? new Carried(this.selected.size) : "band";
      if (moving instanceof Carried) moving.move(now);
      else this.frame(origin, this.inside(now), before, now);
    };
    const end = (last) => {
      document.removeEventListener("pointermove", move);
      document.removeEventListener("pointerup", end);
      document.removeEventListener("pointercancel", end);
      this.band.hidden = true;
      if (!moving && last.type === "pointerup" && event.pointerType !== "touch") this.click(index, event);
      else if (!moving && last.type === "pointerup" && Math.hypot(last.clientX - start.x, last.clientY - start.y) < MOVED) this.click(index, event);
      else if (moving instanceof Carried) { const target = moving.drop(last); if (target !== null) this.assign(target); }
    };
    document.addEventListener("pointermove", move);
    document.addEventListener("pointerup", end);
    document.addEventListener("pointercancel", end);
    if (event.pointerType !== "touch") event.preventDefault();
  }

  inside(event) {
    const box = this.inner.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  frame(from, to, before, event) {
    const [left, right] = [Math.min(from.x, to.x), Math.max(from.x, to.x)], [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y, to.y)];
    Object.assign(this.band.style, { left: `${left}px`, top: `${top}px`, width: `${right - left}px`, height: `${bottom - top}px` });
    this.band.hidden = false;
    const selected = new Set(before);
    // The first photo that ends after a place, and the last one that begins before it; between them is a gap.
    const first = (at) => Math.max(0, Math.ceil((at - GAP - this.side) / this.step)), last = (at) => Math.floor((at - GAP) / this.step);
    for (let row = first(top); row <= last(bottom); row += 1) {
      for (let each = first(left); each <= Math.min(this.columns - 1, last(right)); each += 1) {
        const number = this.numbers[row * this.columns + each];
        if (number !== undefined) selected.add(number);
      }
    }
    this.selected = selected;
    const box = this.element.getBoundingClientRect();
    if (event.clientY > box.bottom - 40) this.element.scrollTop += 24;
    if (event.clientY < box.top + 40) this.element.scrollTop -= 24;
    this.update();
  }
}

// Photos on their way to a class.
class Carried {
  constructor(count) {
    this.ghost = h("div", { class: "carried" }, `${count} photo${count === 1 ? "" : "s"}`);
    document.body.append(this.ghost);
  }

  target(event) { return document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-class]"); }

  move(event) {
    this.ghost.style.transform = `translate(${event.clientX + 12}px, ${event.clientY + 12}px)`;
    this.over?.classList.remove("over");
    this.over = this.target(event);
    this.over?.classList.add("over");
  }

  drop(event) {
    this.ghost.remove();
    this.over?.classList.remove("over");
    const target = this.target(event);
    return target ? Number(target.dataset.class) : null;
  }
}

function badge(classNumber, name, kind, share = null) {
  return h("span", { class: `badge ${kind}`, style: { "--own": colour(classNumber) } }, h("i"), h("span", { class: "text" }, name), share);
}
