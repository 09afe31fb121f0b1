// What the timeline draws: calls of lanes in a stretch of the axis, what small ones sum to, and marks.

import { colour, isDark, number, plural, short } from "./dom.js";
import { ROW, box, fillOf, fitted } from "./paint.js";

export const HEAD = 20;
export const COUNTER = 34;
export const KINDS = ["exception", "gap", "tracing", "context", "message", "event"];

// A call began before what was looked at, goes on after it, ended about there.
export const BEFORE = 1, AFTER = 2, ABOUT = 4;

// How high a lane is: its head, a counter, rows, and a line about rows that are not shown.
export function laneHeight(lane, counter) {
  if (lane.isClosed) return HEAD;
  const rows = Math.max(1, Math.min(lane.rows - lane.first, lane.limit));
  return HEAD + (counter ? COUNTER : 0) + rows * ROW + (lane.first > 0 || lane.rows > lane.first + lane.limit ? ROW : 0) + 4;
}

export const markColour = kind => colour(`--mark-${kind}`);

// Calls of a part of a lane, in the order in which they begin: [row, begin, end, name, flags]; sums: [row, begin, end, name, instructions, calls].
export function drawPart(painter, part, lane, view, top, needle) {
  const { from, scale, width } = view, bottom = lane.first + lane.limit, dark = isDark();
  for (const [row, begin, end, name, instructions] of part.sums) {
    if (row < lane.first || row >= bottom) continue;
    const x = (begin - from) * scale, right = (end - from) * scale;
    if (right < 0 || x > width) continue;
    const y = top + (row - lane.first) * ROW, wide = Math.max(1, right - x);
    // As high as the share of the stretch that the calls have.
    const high = Math.max(3, (ROW - 4) * Math.min(1, instructions / Math.max(1, part.unit(end) - part.unit(begin))));
    painter.rect(x, y + ROW - 2 - high, wide, high, fillOf(name));
    painter.rect(x, y + ROW - 2, wide, 1, dark ? "#0006" : "#0003");
  }
  for (const [row, begin, end, name, flags] of part.calls) {
    if (row < lane.first || row >= bottom) continue;
    let x = (begin - from) * scale, right = (end - from) * scale;
    if (right < 0 || x > width) continue;
    x = Math.max(-2, x);
    right = Math.min(width + 2, right);
    const y = top + (row - lane.first) * ROW, lit = needle && name.toLowerCase().includes(needle);
    box(painter, x, y, right - x, name, fillOf(name), lit);
    if (flags & ABOUT && right < width) painter.rect(right - 2, y + 1, 2, ROW - 2, colour("--line"));
  }
}

export function drawMarks(painter, part, view, top, height, kinds) {
  const { from, scale, width } = view;
  let last = {};
  for (const [at, kind] of part.marks) {
    if (!kinds.has(kind)) continue;
    const x = (at - from) * scale;
    if (x < -4 || x > width + 4 || x - (last[kind] ?? -9) < 1) continue;
    last[kind] = x;
    const ink = markColour(kind);
    painter.rect(x - 3, top + 3, 6, HEAD - 8, ink);
    if (kind === "gap") painter.rect(x - 0.5, top, 1.5, height, ink);
  }
}

// What is known of the part of a lane under the pointer: a call or a sum.
export function hitIn(part, lane, at, row) {
  let found = null;
  for (const call of part.calls) if (call[0] === row && call[1] <= at && call[2] > at) found = { call };
  if (!found) for (const sum of part.sums) if (sum[0] === row && sum[1] <= at && sum[2] > at) found = { sum };
  return found;
}

export function hitWords({ call, sum }, part, isSampled) {
  if (call) {
    const [, begin, end, name, flags] = call, length = part.unit(end) - part.unit(begin);
    return [name, `${plural(length, "instruction")}${flags & ABOUT ? " or more" : flags & AFTER ? " and more" : ""}, from #${number(part.unit(begin))}`,
      ...(flags & BEFORE && !flags & ABOUT ? ["its turn began before"] : [])];
  }
  const [, begin, end, name, instructions, calls] = sum;
  return [name, `the largest of calls too small to be shown: ${short(instructions)} of ${plural(part.unit(end) - part.unit(begin), "instruction")} here`,
    isSampled ? "known from a place in it that was looked at" : plural(calls, "call")];
}

export function drawCounter(painter, points, view, top, label) {
  const seen = points.filter(([x]) => x !== null);
  const most = seen.reduce((sum, point) => Math.max(sum, point[1]), 0);
  if (!most) return painter.text(4, top + COUNTER / 2, `${label}: nothing is known here`, colour("--dim"));
  const path = [];
  for (const [at, value] of seen) path.push([(at - view.from) * view.scale, top + COUNTER - 4 - (COUNTER - 10) * value / most]);
  painter.path(path, colour("--accent"));
  painter.text(4, top + 8, `${label}, up to ${short(most)}`, colour("--dim"));
}

// Round steps, so that the ruler has a line about each hundred pixels.
export function step(span, width) {
  const wanted = span / Math.max(1, width / 110), power = 10 ** Math.floor(Math.log10(Math.max(wanted, 1e-12)));
  return [1, 2, 5, 10].map(factor => factor * power).find(size => size >= wanted);
}

export const fittedName = (text, width) => fitted(text, width);
