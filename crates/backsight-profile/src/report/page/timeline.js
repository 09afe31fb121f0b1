// The timeline: lanes of calls over instructions or time, from all of it to single instructions.
//
// A provider gives what is drawn: extent() the ends of the axis; units() what is asked for at once; laneOf(unit, key) the lane that a part
// belongs to; lanes() those that are known before; chart(unit, from, to, columns, first, rows, isFine) a promise of
// { from, to, kind, words, parts: Map(key -> { calls, sums, marks, rows, unit }) }; ruler(value, step) and words(value); counter(unit, from, to, columns).

import { colour, element, hideTip, oncePerFrame, onLook, showTip } from "./dom.js";
import { COUNTER, HEAD, KINDS, drawCounter, drawMarks, drawPart, fittedName, hitIn, hitWords, laneHeight, markColour, step } from "./lanes.js";
import { CanvasPainter, ROW, SvgPainter, fillOf } from "./paint.js";
import { save, savePicture } from "./save.js";

const RULER = 24, STRIP = 40, FEWEST = 8;

export class Timeline {
  constructor(parent, provider, { onSelect, onCursor, onView, onPick, limit = 64 } = {}) {
    Object.assign(this, { provider, onSelect, onCursor, onView, onPick, limit });
    this.lanes = new Map();
    this.charts = new Map();
    this.wholes = new Map();
    this.counters = new Map();
    this.kinds = new Set(KINDS);
    this.needle = "";
    this.counter = "";
    this.cursor = null;
    this.selection = null;
    this.bookmarks = [];
    this.first = new Map();
    this.asked = 0;
    this.view = { from: 0, to: 1 };
    this.strip = element("canvas", null, "strip");
    this.strip.title = "All of it: drag to move, click to go there";
    this.ruler = element("canvas", null, "ruler");
    this.ruler.title = "Drag to select";
    this.scroll = element("div", null, "lanes");
    this.space = element("div");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("aria-label", "Timeline of calls");
    this.scroll.append(this.canvas, this.space);
    this.said = element("div", "\u00a0", "note said");
    parent.append(this.strip, this.ruler, this.scroll, this.said);
    this.draw = oncePerFrame(() => this.paint());
    this.scroll.addEventListener("scroll", this.draw);
    onLook(() => this.resize());
    new ResizeObserver(() => this.resize()).observe(this.scroll);
    this.listen();
  }

  // The axis or the lanes are others.
  reset(view) {
    this.lanes.clear();
    this.charts.clear();
    this.wholes.clear();
    this.counters.clear();
    for (const lane of this.provider.lanes()) this.addLane(lane);
    const [from, to] = this.provider.extent();
    this.view = { from, to };
    if (view) this.limitTo(view.from, view.to);
    this.resize();
    this.changed();
    this.askWhole();
  }

  addLane({ id, name, order }) {
    if (!this.lanes.has(id)) {
      this.lanes.set(id, { id, name, order, rows: 1, first: 0, limit: this.limit, isClosed: false });
      this.sorted = [...this.lanes.values()].sort((a, b) => a.order - b.order || (a.name < b.name ? -1 : 1));
    }
    return this.lanes.get(id);
  }

  resize() {
    if (this.scroll.offsetParent === null) return;
    const width = this.scroll.clientWidth || 320, isNew = width !== this.width;
    this.width = width;
    this.draw();
    if (isNew) this.changed();
    if (isNew && !this.wholes.size) this.askWhole();
  }

  get span() { return this.view.to - this.view.from; }
  get scale() { return this.width / Math.max(1e-9, this.span); }
  x(at) { return (at - this.view.from) * this.scale; }
  at(x) { return this.view.from + x / this.scale; }

  limitTo(from, to) {
    const [begin, end] = this.provider.extent(), least = Math.min(FEWEST, end - begin);
    let span = Math.max(least, Math.min(to - from, end - begin));
    const middle = (from + to) / 2;
    from = Math.max(begin, Math.min(end - span, middle - span / 2));
    this.view = { from, to: from + span };
  }

  show(from, to) {
    this.limitTo(from, to);
    this.changed();
  }

  zoom(factor, x = this.width / 2) {
    const at = this.at(x), span = this.span * factor, share = x / Math.max(1, this.width);
    this.show(at - span * share, at + span * (1 - share));
  }

  move(share) { this.show(this.view.from + this.span * share, this.view.to + this.span * share); }

  // An instruction that is not seen is brought into the middle.
  reveal(at) {
    const { from, to } = this.view;
    if (at < from + this.span * 0.02 || at > to - this.span * 0.02) this.show(at - this.span / 2, at + this.span / 2);
    else this.draw();
  }

  changed() {
    this.draw();
    this.onView?.(this.view);
    clearTimeout(this.timer);
    // What is on its way while somebody moves is not wanted any more soon: first roughly, then finely.
    this.timer = setTimeout(() => this.ask(), this.isMoving ? 60 : 10);
  }

  async ask() {
    if (!this.width) return;
    const asked = ++this.asked, { from, to } = this.view, margin = (to - from) * 0.15, [begin, end] = this.provider.extent();
    const ask = async isFine => Promise.all(this.provider.units().map(async unit => {
      const { first = 0, rows = this.limit } = this.first.get(unit) ?? {};
      try {
        const chart = await this.provider.chart(unit, Math.max(begin, from - margin), Math.min(end, to + margin), Math.round(this.width * 1.3), first, rows, isFine);
        if (asked === this.asked && chart) this.take(unit, chart);
      } catch (error) {
        if (error.name !== "AbortError" && asked === this.asked) this.said.textContent = error.message;
      }
    }));
    this.isAsking = true;
    await ask(false);
    if (this.counter) this.askCounters(asked, from - margin, to + margin);
    if (asked === this.asked && [...this.charts.values()].some(chart => chart.kind === "places")) await ask(true);
    if (asked === this.asked) this.isAsking = false;
  }

  async askCounters(asked, from, to) {
    for (const unit of this.provider.units()) {
      const points = await this.provider.counter(unit, from, to, Math.round(this.width / 2), this.counter).catch(() => null);
      if (asked !== this.asked) return;
      this.counters.set(unit, points);
    }
    this.draw();
  }

  take(unit, chart) {
    this.charts.set(unit, chart);
    for (const [key, part] of chart.parts) {
      const lane = this.addLane(this.provider.laneOf(unit, key));
      lane.rows = Math.max(lane.rows, part.rows);
      lane.unit = unit;
      part.lane = lane.id;
    }
    this.said.textContent = [...new Set([...this.charts.values()].map(one => one.words).filter(Boolean))].join("; ") || "\u00a0";
    this.draw();
  }

  // The strip above shows all of it, as it is known roughly.
  async askWhole() {
    if (!this.width) return;
    const [from, to] = this.provider.extent();
    for (const unit of this.provider.units()) {
      try {
        const chart = await this.provider.chart(unit, from, to, Math.round(this.width || 800), 0, 16, false, "whole");
        if (chart) this.wholes.set(unit, chart);
      } catch { /* The strip stays empty. */ }
    }
    this.draw();
  }

  setRows(lane, first, limit) {
    [lane.first, lane.limit] = [Math.max(0, first), limit];
    if (lane.unit !== undefined) this.first.set(lane.unit, { first: lane.first, rows: limit });
    for (const other of this.lanes.values()) if (other.unit === lane.unit) [other.first, other.limit] = [lane.first, limit];
    this.changed();
  }

  layout() {
    let top = 0;
    this.tops = [];
    for (const lane of this.sorted ?? []) {
      const height = laneHeight(lane, this.counter);
      this.tops.push([lane, top, height]);
      top += height;
    }
    return top;
  }

  paint() {
    if (!this.width || this.scroll.offsetParent === null) return;
    const high = this.layout(), seen = this.scroll.clientHeight;
    this.paintLanes(new CanvasPainter(this.canvas, this.width, seen), this.scroll.scrollTop, seen);
    this.space.style.height = Math.max(0, high - seen) + "px";
    this.paintRuler(new CanvasPainter(this.ruler, this.width, RULER));
    this.paintStrip(new CanvasPainter(this.strip, this.width, STRIP));
  }

  paintLanes(painter, offset, seen) {
    const view = { from: this.view.from, scale: this.scale, width: this.width };
    painter.rect(0, 0, this.width, seen, colour("--panel"));
    const size = step(this.span, this.width);
    for (let at = Math.ceil(view.from / size) * size; at < this.view.to; at += size) painter.rect(this.x(at), 0, 1, seen, colour("--grid"));
    if (this.selection) {
      const [from, to] = this.selection;
      painter.rect(this.x(from), 0, Math.max(1, this.x(to) - this.x(from)), seen, colour("--selected"));
    }
    for (const [lane, place, height] of this.tops) {
      const top = place - offset;
      if (top + height < 0 || top > seen) continue;
      painter.rect(0, top, this.width, HEAD - 2, colour("--head"));
      if (!lane.isClosed) {
        for (const [unit, chart] of this.charts) {
          for (const part of chart.parts.values()) if (part.lane === lane.id) {
            painter.clip(0, Math.max(0, top + HEAD), this.width, height - HEAD, () => drawPart(painter, part, lane, view, top + HEAD + (this.counter ? COUNTER : 0), this.needle));
          }
          if (this.counter && lane.unit === unit && this.counters.get(unit)) {
            painter.clip(0, top + HEAD, this.width, COUNTER, () => drawCounter(painter, this.counters.get(unit), view, top + HEAD, this.provider.counterName(this.counter)));
          }
        }
      }
      for (const chart of this.charts.values()) for (const part of chart.parts.values()) if (part.lane === lane.id) drawMarks(painter, part, view, top, height, this.kinds);
      const name = fittedName(`${lane.isClosed ? "▸" : "▾"} ${lane.name}`, this.width - 10);
      painter.rect(0, top, Math.min(this.width, name.length * 6.6 + 14), HEAD - 2, colour("--head"));
      painter.text(5, top + HEAD / 2 - 1, name, colour("--text"));
      const hidden = lane.rows > lane.first + lane.limit || lane.first > 0;
      if (hidden && !lane.isClosed) {
        painter.text(5, top + height - ROW / 2 - 3, fittedName(`calls ${lane.first} to ${Math.min(lane.rows, lane.first + lane.limit) - 1} deep of ${lane.rows}: click for deeper, Shift and click for shallower ones`, this.width), colour("--dim"));
      }
    }
    for (const { at, name } of this.bookmarks) this.flag(painter, at, seen, colour("--mark-message"), name);
    if (this.cursor) this.flag(painter, this.cursor.at, seen, colour("--accent"));
  }

  flag(painter, at, high, ink) {
    const x = this.x(at);
    if (x >= -2 && x <= this.width + 2) painter.rect(x - 0.75, 0, 1.5, high, ink);
  }

  paintRuler(painter) {
    painter.rect(0, 0, this.width, RULER, colour("--bg"));
    const size = step(this.span, this.width);
    for (let at = Math.ceil(this.view.from / size) * size; at < this.view.to; at += size) {
      const x = this.x(at);
      painter.rect(x, RULER - 7, 1, 7, colour("--dim"));
      painter.text(x + 4, RULER / 2, this.provider.ruler(at, size), colour("--dim"));
    }
    if (this.selection) {
      const [from, to] = this.selection.map(at => this.x(at));
      painter.rect(from, RULER - 4, Math.max(1, to - from), 4, colour("--accent"));
    }
    if (this.cursor) painter.rect(this.x(this.cursor.at) - 3, RULER - 8, 6, 8, colour("--accent"));
    for (const { at } of this.bookmarks) painter.rect(this.x(at) - 3, RULER - 8, 6, 8, markColour("message"));
  }

  paintStrip(painter) {
    const [begin, end] = this.provider.extent(), scale = this.width / Math.max(1e-9, end - begin);
    painter.rect(0, 0, this.width, STRIP, colour("--panel"));
    const units = [...this.wholes.values()], each = STRIP / Math.max(1, units.length), rows = 12;
    units.forEach((chart, place) => {
      for (const part of chart.parts.values()) {
        for (const [row, from, to, name] of [...part.sums, ...part.calls]) {
          if (row < rows) painter.rect((from - begin) * scale, place * each + row * each / rows, Math.max(1, (to - from) * scale), each / rows, fillOf(name));
        }
      }
    });
    const [left, right] = [this.view.from, this.view.to].map(at => (at - begin) * scale);
    painter.rect(0, 0, left, STRIP, colour("--veil"));
    painter.rect(right, 0, this.width - right, STRIP, colour("--veil"));
    painter.frame(Math.max(1, left), 1, Math.max(3, right - left - 1), STRIP - 2, colour("--accent"));
    if (this.cursor) painter.rect((this.cursor.at - begin) * scale - 1, 0, 2, STRIP, colour("--accent"));
  }

  // What is at a place of the canvas.
  hit(x, y) {
    y += this.scroll.scrollTop;
    const found = (this.tops ?? []).find(([, top, height]) => y >= top && y < top + height);
    if (!found) return null;
    const [lane, top, height] = found, at = this.at(x), inside = y - top;
    if (inside < HEAD) {
      let nearest = null;
      for (const chart of this.charts.values()) for (const part of chart.parts.values()) if (part.lane === lane.id) {
        for (const mark of part.marks) {
          const distance = Math.abs(this.x(mark[0]) - x);
          if (this.kinds.has(mark[1]) && distance < 5 && distance < (nearest?.distance ?? 9)) nearest = { distance, mark, part };
        }
      }
      return { lane, at, isHead: true, mark: nearest?.mark, part: nearest?.part };
    }
    if (!lane.isClosed && (lane.first > 0 || lane.rows > lane.first + lane.limit) && inside > height - ROW - 4) return { lane, at, isFoot: true };
    const row = Math.floor((inside - HEAD - (this.counter ? COUNTER : 0)) / ROW) + lane.first;
    for (const [unit, chart] of this.charts) {
      for (const [key, part] of chart.parts) if (part.lane === lane.id) {
        const what = hitIn(part, lane, at, row);
        if (what) return { lane, at, row, unit, key, part, what, isSampled: chart.kind === "places" };
      }
    }
    return { lane, at, row, unit: lane.unit };
  }

  listen() {
    const { canvas, ruler, strip } = this;
    const place = event => { const edge = event.currentTarget.getBoundingClientRect(); return [event.clientX - edge.left, event.clientY - edge.top]; };
    canvas.addEventListener("wheel", event => {
      event.preventDefault();
      const [x] = place(event), size = event.deltaMode ? 30 : 1;
      if (event.altKey) this.scroll.scrollTop += event.deltaY * size;
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move((event.deltaX || event.deltaY) * size / this.width);
      else this.zoom(Math.exp(Math.max(-200, Math.min(200, event.deltaY * size)) * 0.0025), x);
    }, { passive: false });
    let drag = null;
    canvas.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      const [x, y] = place(event);
      drag = { x, y, view: { ...this.view }, top: this.scroll.scrollTop, isSelecting: event.shiftKey, hasMoved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", event => {
      const [x, y] = place(event);
      if (!drag) return this.hover(x, y, event);
      if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 4) drag.hasMoved = true;
      if (!drag.hasMoved) return;
      hideTip();
      this.isMoving = true;
      if (drag.isSelecting) this.select(this.at(drag.x), this.at(x), false);
      else {
        const shift = (drag.x - x) / this.scale;
        this.show(drag.view.from + shift, drag.view.to + shift);
        this.scroll.scrollTop = drag.top + drag.y - y;
      }
    });
    const up = event => {
      if (!drag) return;
      const { hasMoved, isSelecting } = drag, [x, y] = place(event);
      drag = null;
      this.isMoving = false;
      if (hasMoved) return isSelecting ? this.onSelect?.(this.selection) : this.changed();
      this.click(this.hit(x, y), event);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", () => { drag = null; this.isMoving = false; });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("dblclick", event => {
      const [x, y] = place(event), hit = this.hit(x, y), call = hit?.what?.call;
      if (hit?.isHead || hit?.isFoot) return;
      if (call) this.fit(call[1], call[2]); else this.zoom(0.25, x);
    });
    let begun = null;
    ruler.addEventListener("pointerdown", event => { begun = place(event)[0]; ruler.setPointerCapture(event.pointerId); });
    ruler.addEventListener("pointermove", event => { if (begun !== null) this.select(this.at(begun), this.at(place(event)[0]), false); });
    ruler.addEventListener("pointerup", event => {
      const [x] = place(event);
      if (begun !== null && Math.abs(x - begun) > 3) this.onSelect?.(this.selection); else if (begun !== null) this.select();
      begun = null;
    });
    let moved = null;
    const all = () => { const [begin, end] = this.provider.extent(); return [begin, (end - begin) / this.width]; };
    strip.addEventListener("pointerdown", event => {
      const [begin, each] = all(), at = begin + place(event)[0] * each;
      if (at < this.view.from || at > this.view.to) this.show(at - this.span / 2, at + this.span / 2);
      moved = at - this.view.from;
      strip.setPointerCapture(event.pointerId);
    });
    strip.addEventListener("pointermove", event => {
      if (moved === null) return;
      const [begin, each] = all(), from = begin + place(event)[0] * each - moved;
      this.isMoving = true;
      this.show(from, from + this.span);
    });
    strip.addEventListener("pointerup", () => { moved = null; this.isMoving = false; this.changed(); });
    canvas.addEventListener("keydown", event => this.key(event));
  }

  // With some room on both sides.
  fit(from, to) {
    const room = Math.max(1, (to - from) * 0.05);
    this.show(from - room, to + room);
  }

  // Gives whether the key means something here.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    const act = {
      w: () => this.zoom(0.6), s: () => this.zoom(1 / 0.6), a: () => this.move(-0.2), d: () => this.move(0.2),
      "+": () => this.zoom(0.6), "=": () => this.zoom(0.6), "-": () => this.zoom(1 / 0.6), ArrowLeft: () => this.move(-0.1), ArrowRight: () => this.move(0.1),
      ArrowUp: () => { this.scroll.scrollTop -= 60; }, ArrowDown: () => { this.scroll.scrollTop += 60; },
      PageUp: () => { this.scroll.scrollTop -= this.scroll.clientHeight * 0.9; }, PageDown: () => { this.scroll.scrollTop += this.scroll.clientHeight * 0.9; },
      Home: () => this.show(...this.provider.extent()), "0": () => this.show(...this.provider.extent()),
      f: () => { if (this.selection) this.fit(...this.selection); else if (this.picked) this.fit(this.picked[1], this.picked[2]); },
      m: () => { if (this.picked) { this.select(this.picked[1], this.picked[2]); } },
      Escape: () => this.select(),
    }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return false;
    event.preventDefault();
    event.stopPropagation();
    act();
    return true;
  }

  hover(x, y, event) {
    const hit = this.hit(x, y);
    this.canvas.style.cursor = hit?.isHead || hit?.isFoot ? "pointer" : "crosshair";
    if (hit?.mark) showTip([hit.mark[2] || hit.mark[1], `${hit.mark[1]} at ${this.provider.words(hit.mark[0])}`], event);
    else if (hit?.what) showTip(hitWords(hit.what, hit.part, hit.isSampled), event);
    else hideTip();
  }

  click(hit, event) {
    if (!hit) return;
    if (hit.mark) return this.onCursor?.({ ...hit, at: hit.mark[0], unit: hit.lane.unit });
    if (hit.isHead) { hit.lane.isClosed = !hit.lane.isClosed; return this.draw(); }
    if (hit.isFoot) {
      const { lane } = hit, by = lane.limit;
      return this.setRows(lane, Math.min(lane.first + (event.shiftKey ? -by : by), Math.max(0, lane.rows - 1)), by);
    }
    this.picked = hit.what?.call ?? null;
    if (this.picked) this.onPick?.(this.picked, hit);
    this.onCursor?.(hit);
    this.draw();
  }

  select(one, other, isDone = true) {
    const [begin, end] = this.provider.extent();
    const inside = at => Math.max(begin, Math.min(end, Math.round(at)));
    this.selection = one === undefined ? null : [inside(Math.min(one, other)), Math.max(inside(Math.min(one, other)) + 1, inside(Math.max(one, other)))];
    if (isDone) this.onSelect?.(this.selection);
    this.draw();
  }

  search(needle) { this.needle = needle.toLowerCase(); this.draw(); }

  saveSvg(name) {
    const high = Math.min(this.layout(), 20000), painter = new SvgPainter(this.width, high);
    this.paintLanes(painter, 0, high);
    save(name, painter.toString(), "image/svg+xml");
  }

  savePng(name) { savePicture(this.canvas, name); }
}
