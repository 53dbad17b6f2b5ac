// A wall of thumbnails of any length: only the visible rows are elements. A listbox for keyboards and screen readers.

import { count, h } from "./dom.js";
import { badge } from "./parts.js";
import { className, store } from "./store.js";

const GAP = 8,
  ROWS_AHEAD = 2,
  MOVED = 6; // pixels, rows, pixels
// Milliseconds: thumbnails that are only passed by are not asked for; those of the next screen are, when all is quiet.
const PASSED_BY = 80,
  QUIET = 250;
let walls = 0;

export class Wall {
  // `actions`: label(numbers, classNumber), confirm(pairs), preview(wall), changed(); `name` is for screen readers.
  constructor(name, actions) {
    walls += 1;
    this.id = `wall${walls}`;
    this.actions = actions;
    this.numbers = [];
    this.answers = {};
    this.selected = new Set();
    this.cursor = this.anchor = 0;
    this.tiles = new Map(); // by index
    this.ahead = [];
    this.inner = h("div", { class: "wall-inner", role: "presentation" });
    this.band = h("div", { class: "band", hidden: true });
    this.element = h(
      "div",
      {
        class: "wall",
        role: "listbox",
        tabindex: "0",
        "aria-label": name,
        "aria-multiselectable": "true",
      },
      this.inner,
    );
    this.inner.append(this.band);
    this.element.addEventListener("scroll", () => this.render(), { passive: true });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("pointerdown", (event) => this.onPointer(event));
    this.element.addEventListener("dblclick", () => this.actions.preview(this));
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(this.element);
    this.size = Number(localStorage.getItem("semco-tile") || 150);
  }

  close() {
    this.observer.disconnect();
    clearTimeout(this.timer);
  }

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

  // Take the newest answers and order; what is in sight, and everything before it, stays in its place.
  follow(view) {
    const end = Math.max(this.end ?? 0, this.cursor + 1),
      kept = this.numbers.slice(0, end),
      isKept = new Set(kept);
    const numbers = [...kept, ...view.numbers.filter((number) => !isKept.has(number))];
    const row = new Map(view.numbers.map((number, i) => [number, [view, i]]));
    this.numbers.forEach((number, i) => row.has(number) || row.set(number, [this.answers, i]));
    const column = (name) =>
      numbers.map((number) => {
        const [from, i] = row.get(number);
        return from[name]?.[i] ?? -1;
      });
    this.answers = { guesses: column("guesses"), confidence: column("confidence"), others: column("others") };
    this.numbers = numbers;
    for (const [index, tile] of this.tiles) {
      if (index < end) continue;
      this.tiles.delete(index);
      tile.remove();
    }
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
    this.height = this.element.clientHeight;
    this.columns = Math.max(2, Math.floor((width + GAP) / (size + GAP)));
    this.side = Math.floor((width - GAP * (this.columns - 1)) / this.columns);
    this.step = this.side + GAP;
    this.element.classList.toggle("small", this.side < 130);
    this.element.classList.toggle("tiny", this.side < 100);
    this.inner.style.height = `${Math.ceil(this.numbers.length / this.columns) * this.step + GAP}px`;
    for (const [index, tile] of this.tiles) this.place(tile, index);
    this.rows = "";
    this.render();
    this.update();
  }

  place(tile, index) {
    const x = GAP + (index % this.columns) * this.step,
      y = GAP + Math.floor(index / this.columns) * this.step;
    tile.style.width = tile.style.height = `${this.side}px`;
    tile.style.transform = `translate(${x}px, ${y}px)`;
  }

  // Give the visible rows their elements; those of rows that are out of sight are used again.
  render() {
    if (!this.step) return;
    const top = this.element.scrollTop;
    const firstRow = Math.max(0, Math.floor(top / this.step) - ROWS_AHEAD);
    const lastRow = Math.ceil((top + this.height) / this.step) + ROWS_AHEAD;
    if (this.rows === `${firstRow}-${lastRow}`) return;
    this.rows = `${firstRow}-${lastRow}`;
    const isJump = Math.abs(top - (this.top ?? top)) > this.height / 2;
    this.top = top;
    this.fill(firstRow * this.columns, Math.min(this.numbers.length, lastRow * this.columns));
    clearTimeout(this.timer);
    if (isJump) this.timer = setTimeout(() => this.load(), PASSED_BY);
    else this.load();
  }

  fill(first, last) {
    const free = [];
    for (const [index, tile] of this.tiles) {
      if (index < first || index >= last) {
        this.tiles.delete(index);
        free.push(tile);
      }
    }
    for (let index = first; index < last; index += 1) {
      if (!this.tiles.has(index)) this.use(free.pop() ?? this.create(), index);
    }
    for (const tile of free) tile.remove();
    this.end = last;
    this.point();
  }

  create() {
    const image = h("img", { alt: "", draggable: "false", decoding: "async" });
    const tile = h("div", { class: "tile", role: "option" }, image);
    const end = (outcome) => () => {
      if (tile.isAsked) tile.classList.add(outcome); // otherwise it is the photo that the tile showed before
    };
    image.addEventListener("error", end("broken"));
    image.addEventListener("load", end("loaded"));
    this.inner.append(tile);
    return tile;
  }

  use(tile, index) {
    tile.isAsked = false; // its image keeps the old source for now: one without a source costs a new layout
    tile.classList.remove("loaded", "broken");
    tile.id = `${this.id}-${index}`;
    tile.dataset.index = index;
    tile.setAttribute("aria-setsize", this.numbers.length);
    tile.setAttribute("aria-posinset", index + 1);
    this.tiles.set(index, tile);
    this.place(tile, index);
    this.updateTile(tile, index);
  }

  source(index) {
    return `/thumbnail/${store.session}/${this.numbers[index]}`;
  }

  load() {
    for (const image of this.ahead) image.removeAttribute("src");
    this.ahead = [];
    for (const [index, tile] of this.tiles) {
      if (tile.isAsked) continue;
      tile.isAsked = true;
      tile.firstChild.src = this.source(index);
    }
    this.timer = setTimeout(() => this.loadAhead(), QUIET);
  }

  loadAhead() {
    const last = Math.min(this.numbers.length, this.end + Math.ceil(this.height / this.step) * this.columns);
    for (let index = this.end; index < last; index += 1) {
      const image = new Image();
      image.fetchPriority = "low";
      image.src = this.source(index);
      this.ahead.push(image);
    }
  }

  // Ask again for what could not be shown while the Studio did not answer.
  retry() {
    for (const [index, tile] of this.tiles) if (tile.classList.contains("broken")) this.use(tile, index);
    this.load();
  }

  guess(index) {
    const guess = this.answers.guesses?.[index] ?? -1;
    return guess < 0 ? null : { guess, confidence: this.answers.confidence[index], other: this.answers.others[index] };
  }

  update() {
    for (const [index, tile] of this.tiles) this.updateTile(tile, index);
    this.point();
    this.actions.changed?.();
  }

  point() {
    this.element.setAttribute("aria-activedescendant", this.tiles.has(this.cursor) ? `${this.id}-${this.cursor}` : "");
  }

  updateTile(tile, index) {
    const number = this.numbers[index],
      label = store.labels.get(number) ?? null,
      answer = this.guess(index);
    const isSelected = this.selected.has(number),
      isCursor = index === this.cursor;
    const names = [label, answer?.guess, answer?.other].map((each) => (each > 0 ? className(each) : ""));
    const key = JSON.stringify([number, isSelected, isCursor, label, answer, names]);
    if (tile.key === key) return;
    tile.key = key;
    tile.classList.toggle("selected", isSelected);
    tile.classList.toggle("cursor", isCursor);
    tile.classList.toggle("labelled", label !== null);
    tile.setAttribute("aria-selected", isSelected);
    tile.setAttribute(
      "aria-label",
      `Photo ${number + 1}${label !== null ? `, labelled ${names[0]}` : ", no label"}` +
        (answer ? `, model: ${names[1]} ${answer.confidence} percent` : ""),
    );
    const badges = [];
    if (label !== null) badges.push(badge(label, names[0], "given"));
    else if (answer) {
      badges.push(badge(answer.guess, names[1], "guess", `${answer.confidence} %`));
      if (answer.other >= 0) badges.push(badge(answer.other, names[2], "guess other"));
    }
    if (tile.childElementCount > 1) tile.lastChild.remove();
    if (badges.length) tile.append(h("span", { class: "badges" }, badges));
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
    const pairs = this.numbers
      .map((number, index) => [number, this.guess(index)?.guess])
      .filter(([number, guess]) => chosen.has(number) && guess !== undefined);
    if (!pairs.length) return;
    this.actions.confirm(pairs);
    this.advance([...chosen]);
  }

  // Move on to the next photo without a label.
  advance(numbers) {
    const done = new Set(numbers);
    const isOpen = (number) => !store.labels.has(number) && !done.has(number);
    let next = this.cursor;
    this.numbers.forEach((number, index) => {
      if (done.has(number)) next = Math.max(next, index);
    });
    this.selected.clear();
    const found = this.numbers.findIndex((number, index) => index >= next && isOpen(number));
    this.moveTo(found >= 0 ? found : next);
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

  selectAll() {
    this.selectRange(0, this.numbers.length - 1);
    this.update();
  }

  clearSelection() {
    this.selected.clear();
    this.update();
  }

  reveal() {
    const top = Math.floor(this.cursor / this.columns) * this.step,
      end = top + this.step + GAP;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (end > this.element.scrollTop + this.height) this.element.scrollTop = end - this.height;
    this.render();
  }

  onKey(event) {
    const isCommand = event.ctrlKey || event.metaKey;
    if (isCommand && event.key === "a") {
      this.selectAll();
      event.preventDefault();
    }
    if (isCommand || event.altKey) return;
    const screen = Math.max(1, Math.floor(this.height / this.step) - 1) * this.columns;
    const moves = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -this.columns,
      ArrowDown: this.columns,
      PageUp: -screen,
      PageDown: screen,
      Home: -this.numbers.length,
      End: this.numbers.length,
    };
    const chosen = event.key >= "1" && event.key <= "9" ? store.classes[Number(event.key) - 1] : null;
    if (event.key in moves) this.moveTo(this.cursor + moves[event.key], event.shiftKey);
    else if (chosen) this.assign(chosen[0]);
    else if (["0", "Backspace", "Delete"].includes(event.key)) this.assign(null);
    else if (event.key === "Enter") this.confirm();
    else if (event.key === " ") this.actions.preview(this);
    else if (event.key === "x") this.toggle(this.cursor);
    else if (event.key === "Escape") this.clearSelection();
    else return;
    event.preventDefault();
  }

  toggle(index) {
    const number = this.numbers[index];
    if (!this.selected.delete(number)) this.selected.add(number);
    this.cursor = this.anchor = index;
    this.update();
  }

  click(index, event) {
    if (index < 0) {
      this.clearSelection();
      return;
    }
    if (event.shiftKey) {
      this.cursor = index;
      this.selectRange(this.anchor, index);
      this.update();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.pointerType === "touch") {
      this.toggle(index);
      return;
    }
    const isOnly = this.selected.size === 1 && this.selected.has(this.numbers[index]);
    this.selected = new Set(isOnly ? [] : [this.numbers[index]]);
    this.cursor = this.anchor = index;
    this.update();
  }

  // A press without movement is a click; with movement it drags selected photos to a class, or selects by a frame.
  // A finger that moves scrolls.
  onPointer(event) {
    if (event.button !== 0 || event.offsetX > this.element.clientWidth) return;
    this.element.focus({ preventScroll: true });
    const tile = event.target.closest(".tile"),
      index = tile ? Number(tile.dataset.index) : -1;
    const isDrag = index >= 0 && this.selected.has(this.numbers[index]),
      isTouch = event.pointerType === "touch";
    const before = event.shiftKey || event.ctrlKey || event.metaKey ? new Set(this.selected) : new Set();
    const origin = this.inside(event),
      listening = new AbortController();
    const isMoved = (now) => Math.hypot(now.clientX - event.clientX, now.clientY - event.clientY) >= MOVED;
    let carried = null,
      isFrame = false;
    const move = (now) => {
      if ((isTouch && !isDrag) || (!carried && !isFrame && !isMoved(now))) return;
      if (isDrag) {
        carried ??= new Carried(this.selected.size);
        carried.move(now);
        return;
      }
      isFrame = true;
      this.frame(origin, this.inside(now), before, now);
    };
    const end = (last) => {
      listening.abort();
      this.band.hidden = true;
      const target = carried?.drop(last) ?? null;
      if (target !== null) this.assign(target);
      else if (!carried && !isFrame && last.type === "pointerup" && !(isTouch && isMoved(last)))
        this.click(index, event);
    };
    document.addEventListener("pointermove", move, { signal: listening.signal });
    for (const name of ["pointerup", "pointercancel"])
      document.addEventListener(name, end, { signal: listening.signal });
    if (!isTouch) event.preventDefault();
  }

  inside(event) {
    const box = this.inner.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  frame(from, to, before, event) {
    const [left, right] = [Math.min(from.x, to.x), Math.max(from.x, to.x)];
    const [top, bottom] = [Math.min(from.y, to.y), Math.max(from.y, to.y)];
    const box = { left, top, width: right - left, height: bottom - top };
    for (const [name, value] of Object.entries(box)) this.band.style[name] = `${value}px`;
    this.band.hidden = false;
    const selected = new Set(before);
    // The first photo that ends after a place, and the last one that begins before it; between them is a gap.
    const first = (at) => Math.max(0, Math.ceil((at - GAP - this.side) / this.step));
    const last = (at) => Math.floor((at - GAP) / this.step);
    for (let row = first(top); row <= last(bottom); row += 1) {
      for (let each = first(left); each <= Math.min(this.columns - 1, last(right)); each += 1) {
        const number = this.numbers[row * this.columns + each];
        if (number !== undefined) selected.add(number);
      }
    }
    this.selected = selected;
    const edge = this.element.getBoundingClientRect();
    if (event.clientY > edge.bottom - 40) this.element.scrollTop += 24;
    if (event.clientY < edge.top + 40) this.element.scrollTop -= 24;
    this.update();
  }
}

// Photos on their way to a class.
class Carried {
  constructor(number) {
    this.ghost = h("div", { class: "carried" }, count(number, "photo"));
    document.body.append(this.ghost);
  }

  target(event) {
    return document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-class]");
  }

  move(event) {
    this.ghost.style.transform = `translate(${event.clientX + 12}px, ${event.clientY + 12}px)`;
    this.over?.classList.remove("over");
    this.over = this.target(event);
    this.over?.classList.add("over");
  }

  // Return the class on which the photos were dropped, null if there is none.
  drop(event) {
    this.ghost.remove();
    this.over?.classList.remove("over");
    const target = event.type === "pointerup" ? this.target(event) : null;
    return target ? Number(target.dataset.class) : null;
  }
}
