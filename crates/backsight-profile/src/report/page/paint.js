// Boxes, lines and texts, drawn on a canvas or into an SVG picture.

import { isDark } from "./dom.js";

export const ROW = 18;
export const FONT = "12px system-ui, sans-serif";

export function hash(name) {
  let sum = 7;
  for (let place = 0; place < name.length && place < 200; place++) sum = (sum * 31 + name.charCodeAt(place)) >>> 0;
  return (sum ^ sum >>> 13) >>> 0;
}

const fills = [new Map(), new Map()];
export function fillOf(name) {
  const dark = isDark(), known = fills[+dark];
  if (!known.has(name)) {
    if (known.size > 50000) known.clear();
    const sum = hash(name), hue = sum % 360, light = dark ? 30 + sum % 10 : 74 + sum % 10;
    known.set(name, `hsl(${hue} ${dark ? 38 : 62}% ${light}%)`);
  }
  return known.get(name);
}
export const inkOf = () => isDark() ? "#f4f1ee" : "#1c1714";

// A text that fits: letters have about one width, so that nobody measures a thousand texts for each frame.
const SAMPLE = "text_of_functions::names<u32>(0x1f)";
let letter = 0;
export function fitted(text, width) {
  const most = Math.floor((width - 6) / (letter || 7));
  if (most < 2) return "";
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}

export class CanvasPainter {
  constructor(canvas, width, height) {
    const ratio = devicePixelRatio || 1, wide = Math.round(width * ratio), high = Math.round(height * ratio);
    if (canvas.width !== wide || canvas.height !== high) {
      canvas.width = wide;
      canvas.height = high;
      canvas.style.width = width + "px";
      canvas.style.height = height + "px";
    }
    this.context = canvas.getContext("2d", { alpha: false });
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = FONT;
    this.context.textBaseline = "middle";
    letter ||= this.context.measureText(SAMPLE).width / SAMPLE.length;
  }
  rect(x, y, width, height, fill) { this.context.fillStyle = fill; this.context.fillRect(x, y, width, height); }
  frame(x, y, width, height, ink) { this.context.strokeStyle = ink; this.context.lineWidth = 1.5; this.context.strokeRect(x, y, width, height); }
  line(x, y, toX, toY, ink, width = 1) {
    const { context } = this;
    context.strokeStyle = ink;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
  }
  path(points, ink) {
    const { context } = this;
    context.strokeStyle = ink;
    context.lineWidth = 1.2;
    context.beginPath();
    points.forEach(([x, y], place) => place ? context.lineTo(x, y) : context.moveTo(x, y));
    context.stroke();
  }
  text(x, y, text, ink, font) {
    const { context } = this;
    if (font) context.font = font;
    context.fillStyle = ink;
    context.fillText(text, x, y);
    if (font) context.font = FONT;
  }
  clip(x, y, width, height, draw) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    draw();
    context.restore();
  }
}

export class SvgPainter {
  constructor(width, height) {
    this.space = "http://www.w3.org/2000/svg";
    this.root = this.make("svg", { xmlns: this.space, viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif", "font-size": 12 });
    this.open = this.root;
    this.clips = 0;
  }
  make(tag, attributes) {
    const made = document.createElementNS(this.space, tag);
    for (const [name, value] of Object.entries(attributes)) if (name !== "xmlns") made.setAttribute(name, typeof value === "number" ? +value.toFixed(2) : value);
    return made;
  }
  put(tag, attributes) { const made = this.make(tag, attributes); this.open.append(made); return made; }
  rect(x, y, width, height, fill) { this.put("rect", { x, y, width, height, fill }); }
  frame(x, y, width, height, stroke) { this.put("rect", { x, y, width, height, fill: "none", stroke }); }
  line(x1, y1, x2, y2, stroke, width = 1) { this.put("line", { x1, y1, x2, y2, stroke, "stroke-width": width }); }
  path(points, stroke) { this.put("polyline", { points: points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "), fill: "none", stroke }); }
  // What no file of XML may have in it is left out.
  text(x, y, text, fill) { this.put("text", { x, y: y + 4, fill }).textContent = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd"); }
  clip(x, y, width, height, draw) {
    const id = `clip${this.clips++}`, before = this.open;
    const path = this.put("clipPath", { id });
    path.append(this.make("rect", { x, y, width, height }));
    this.open = this.put("g", { "clip-path": `url(#${id})` });
    draw();
    this.open = before;
  }
  toString() { return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(this.root); }
}

export function box(painter, x, y, width, name, fill, lit) {
  painter.rect(x, y + 1, Math.max(0.6, width - (width > 3 ? 1 : 0)), ROW - 2, fill);
  if (lit) painter.frame(x + 1, y + 2, Math.max(1, width - 3), ROW - 4, inkOf());
  if (width > 24) {
    const text = fitted(name, width);
    if (text) painter.text(x + 3, y + ROW / 2 + 0.5, text, inkOf());
  }
}
