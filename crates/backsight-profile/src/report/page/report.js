// The page of a report: a profile, its difference to another one, calls over time, and how good the trace was.

import { byId, button, element, field, number, plural } from "./dom.js";
import { Comparison } from "./compare.js";
import { ProfileView } from "./profile.js";
import { Timeline } from "./timeline.js";

const { counts } = data;
byId("title").textContent = data.title || "Backsight report";
document.title = (data.title || "Backsight") + " \u2013 profile";
byId("sum").textContent = [plural(data.instructions, "instruction"), data.cycles ? plural(data.cycles, "cycle") : "", plural(counts.blocks, "block"),
  plural(counts.edges, "edge"), plural(counts.functions, "function"), plural(counts.threads, "thread")].filter(Boolean).join(", ");

// Calls over time that the file has. What is too small for the picture is summed up for each pixel.
class Slices {
  constructor({ names, list }) {
    this.threads = list.filter(thread => thread.slices.length).map((thread, place) => ({
      id: place, name: thread.name, order: place, slices: thread.slices.map(([name, depth, begin, end]) => [depth, begin, end, names[name], 0]),
      rows: 1 + thread.slices.reduce((most, slice) => Math.max(most, slice[1]), 0),
    }));
    this.end = this.threads.reduce((most, thread) => thread.slices.reduce((sum, slice) => Math.max(sum, slice[2]), most), 1);
  }
  extent() { return [0, this.end]; }
  units() { return this.threads.map(thread => thread.id); }
  lanes() { return this.threads; }
  laneOf(unit) { return this.threads[unit]; }
  ruler(value) { return "#" + number(Math.round(value)); }
  words(value) { return "#" + number(Math.round(value)); }
  async chart(unit, from, to, columns) {
    const { slices, rows } = this.threads[unit], calls = [], cells = new Map(), column = (to - from) / columns;
    for (const slice of slices) {
      const [row, begin, end, name] = slice;
      if (end <= from || begin >= to) continue;
      if (end - begin >= column) { calls.push(slice); continue; }
      const place = Math.floor((begin - from) / column), key = row * columns * 2 + place, known = cells.get(key);
      if (!known) cells.set(key, [row, from + place * column, from + (place + 1) * column, name, end - begin, 1, end - begin]);
      else {
        known[4] += end - begin;
        known[5]++;
        if (end - begin > known[6]) [known[3], known[6]] = [name, end - begin];
      }
    }
    return { from, to, kind: "all", words: "", parts: new Map([["", { calls, sums: [...cells.values()], marks: [], rows, unit: at => Math.round(at) }]]) };
  }
}

const more = [...(data.compare ? [["compare", "Comparison"]] : []), ["time", "Timeline"], ["about", "Trace and health"]];
const opened = id => {
  if (id === "time") timeline?.resize();
  if (id === "compare") { comparison?.graph.layout(); comparison?.functions.fill(); comparison?.lines.fill(); }
};
let timeline = null, comparison = null;
const view = new ProfileView(byId("main"), { code: row => data.functions.find(one => one.number === row.number)?.code ?? undefined, more, onOpen: opened });
view.set(data);
if (data.compare) {
  comparison = new Comparison(view.tabs.body("compare"));
  comparison.set(data.compare);
}

const time = view.tabs.body("time"), slices = new Slices(data.threads);
if (slices.threads.length) {
  const bar = element("div", null, "bar"), left = data.omitted.slices;
  time.append(bar, element("p", (left ? `${plural(left, "call")} that are shorter than those in the picture are not in this file: \`backsight view\` shows all of them. ` : "")
    + "Wheel, W and S zoom, A, D and dragging move, a double click shows all of a call; drag in the ruler to measure.", "note"));
  timeline = new Timeline(time, slices, { limit: 48, onSelect: span => { measured.textContent = span ? `${plural(span[1] - span[0], "instruction")} from #${number(span[0])} to #${number(span[1])}` : ""; } });
  const measured = element("span", "", "note");
  bar.append(field("Search functions", text => timeline.search(text)), button("All", "Show all of it", () => timeline.show(...slices.extent())),
    button("SVG", "Save the picture as SVG", () => timeline.saveSvg("timeline.svg")), button("PNG", "Save the picture as PNG", () => timeline.savePng("timeline.png")), measured);
  timeline.reset();
} else time.append(element("p", "No calls over time were kept.", "note"));

const about = view.tabs.body("about"), facts = element("dl");
for (const warning of data.warnings) about.append(element("p", warning, "warn"));
for (const [name, value] of data.facts) facts.append(element("dt", name), element("dd", value));
about.append(facts);
const wanted = location.hash.slice(1);
view.tabs.open([...view.tabs.bar.children].some(tab => tab.dataset.tab === wanted) ? wanted : "flame");
// For tests, which look at what is shown.
globalThis.backsight = { view, data, get timeline() { return timeline; }, get comparison() { return comparison; } };
