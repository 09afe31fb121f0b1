// Flame graphs: a tree of calls as boxes, the callers above what they call. Only rows that are seen are drawn.

import { colour, element, hideTip, number, oncePerFrame, onLook, percent, showTip } from "./dom.js";
import { CanvasPainter, ROW, SvgPainter, box, fillOf } from "./paint.js";
import { save, savePicture } from "./save.js";

export class FlameGraph {
  constructor(parent, { unit = "instructions", fill = node => fillOf(node.name), words, onPick, most = "50vh" } = {}) {
    Object.assign(this, { unit, fill, onPick, root: null, focus: null, needle: "", rows: [], depth: 0 });
    this.words = words ?? (node => [node.name, `${number(node.total)} ${this.unit} with what it called, ${percent(node.total, this.root.total)}`, `${number(node.own)} own, ${number(node.calls)} calls`]);
    this.info = element("div", "", "note");
    this.info.hidden = true;
    this.scroll = element("div", null, "flames");
    this.scroll.style.maxHeight = most;
    this.space = element("div");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.scroll.append(this.canvas, this.space);
    parent.append(this.info, this.scroll);
    this.draw = oncePerFrame(() => this.paint());
    this.scroll.addEventListener("scroll", this.draw);
    this.canvas.addEventListener("click", event => { const hit = this.at(event); if (hit) { this.zoom(hit); this.onPick?.(hit); } });
    this.canvas.addEventListener("mousemove", event => { const hit = this.at(event); hit ? showTip(this.words(hit), event) : hideTip(); });
    this.canvas.addEventListener("mouseleave", hideTip);
    this.canvas.addEventListener("keydown", event => { if (event.key === "Escape" && this.focus?.up) { this.zoom(this.focus.up); event.stopPropagation(); } });
    onLook(() => this.layout());
  }

  set(root) {
    Object.assign(this, { root, focus: root });
    this.layout();
  }

  zoom(node) {
    this.focus = node;
    this.layout();
  }

  search(needle) {
    this.needle = needle.toLowerCase();
    let sum = 0;
    if (this.needle && this.root) {
      const open = [this.root];
      let left = 200000;
      while (open.length && left-- > 0) {
        const node = open.pop();
        if (node.name.toLowerCase().includes(this.needle)) sum += node.total; else open.push(...node.children);
      }
      this.info.textContent = `"${needle}": ${number(sum)} ${this.unit}, ${percent(sum, this.root.total)}`;
    }
    this.info.hidden = !this.needle;
    this.draw();
  }

  // Boxes by row: those that are too narrow to be seen are left out, and what they sum to stays empty.
  layout() {
    const { root, focus, scroll } = this;
    if (!root || scroll.offsetParent === null) return;
    const width = this.width = scroll.clientWidth || 320, path = [];
    for (let node = focus; node; node = node.up) path.unshift(node);
    this.rows = path.slice(0, -1).map(node => [[node, 0, width]]);
    let level = [[focus, 0, width]];
    this.hidden = 0;
    while (level.length) {
      this.rows.push(level);
      const next = [];
      for (const [node, x, wide] of level) {
        let at = x;
        for (const child of node.children) {
          const part = wide * child.total / Math.max(1, node.total);
          if (part >= 0.4) next.push([child, at, part]); else this.hidden++;
          at += part;
        }
      }
      level = next;
    }
    const high = Math.max(3, this.rows.length) * ROW + 6;
    scroll.style.height = `min(${high + 4}px, ${scroll.style.maxHeight})`;
    this.high = high;
    this.draw();
  }

  paint(painter) {
    const { scroll, canvas, space, rows, needle } = this;
    if (!rows.length || (!painter && scroll.offsetParent === null)) return;
    const isScreen = !painter, view = isScreen ? scroll.clientHeight : this.high, top = isScreen ? scroll.scrollTop : 0;
    if (isScreen) {
      painter = new CanvasPainter(canvas, this.width, view);
      space.style.height = Math.max(0, this.high - view) + "px";
    }
    painter.rect(0, 0, this.width, view, colour("--panel"));
    const first = Math.max(0, Math.floor((top - 2) / ROW)), last = Math.min(rows.length, Math.ceil((top + view) / ROW));
    for (let row = first; row < last; row++) {
      const y = row * ROW + 2 - top;
      for (const [node, x, width] of rows[row]) box(painter, x, y, width, node.name, this.fill(node), needle && node.name.toLowerCase().includes(needle));
    }
  }

  at(event) {
    const edge = this.canvas.getBoundingClientRect(), x = event.clientX - edge.left, row = Math.floor((event.clientY - edge.top + this.scroll.scrollTop - 2) / ROW);
    return this.rows[row]?.find(part => x >= part[1] && x < part[1] + part[2])?.[0];
  }

  saveSvg(name) {
    const painter = new SvgPainter(this.width, this.high);
    this.paint(painter);
    save(name, painter.toString(), "image/svg+xml");
  }

  savePng(name) { savePicture(this.canvas, name); }
}
