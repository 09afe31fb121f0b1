// The page: timeline, selection, moment, search; and where it stands, in its address.

import { ask, follow } from "./ask.js";
import { button, byId, element, number, short } from "./dom.js";
import { Bookmarks, FindView } from "./find.js";
import { listenToKeys } from "./keys.js";
import { MomentView } from "./moment.js";
import { Provider } from "./provider.js";
import { SelectionView } from "./selection.js";
import { makeSettings, showFacts } from "./settings.js";
import { Timeline } from "./timeline.js";

const provider = new Provider();
provider.set(await ask("overview"));
const title = provider.overview.recordings.map(one => one.description || one.name).join(" \u2194 ");
byId("title").textContent = byId("title").title = title;
document.title = `${title} \u2013 Backsight`;

const timeline = new Timeline(byId("timeline"), provider, {
  onView: () => remember(),
  onSelect: span => { if (span) selection.set(span); remember(); },
  onCursor: ({ unit, at }) => {
    // Where a lane has parts of several sources, that of the call counts.
    const chosen = unit ?? provider.units()[0];
    if (chosen !== undefined) moment.go(chosen, provider.toInstruction(chosen, at), {}, true);
  },
  // What flame graphs show callers and callees of.
  onPick: call => { selection.profile.chosen = call[3]; },
});
const open = id => {
  selection?.comparison.graph.layout();
  if (id === "compare") { selection.comparison.functions.fill(); selection.comparison.lines.fill(); }
};
let selection = null;
selection = new SelectionView(byId("left"), {
  provider, timeline, onOpen: open, more: [["find", "Search"], ["bookmarks", "Bookmarks"], ["about", "Capture"]],
  onFunction: row => [button("Find its calls", "The moments at which it is entered", () => { selection.profile.tabs.open("find"); finder.find("function", row.name, span()); }),
    button("Light up", "In the timeline", () => timeline.search(row.name))],
});
const span = () => { const [part] = selection.windows.split(","), [, ends] = part.split(":"); const [from, to] = (ends ?? "").split("-"); return from ? { from, to } : {}; };
const body = id => selection.profile.tabs.body(id);
const moment = new MomentView(byId("right"), {
  provider,
  onMove: (unit, instruction, isQuiet) => {
    timeline.cursor = { unit, at: provider.toAxis(unit, instruction) };
    if (isQuiet) timeline.draw(); else timeline.reveal(timeline.cursor.at);
    remember();
  },
  onFind: () => bookmark(),
});
const go = (unit, instruction) => moment.go(unit, instruction);
const finder = new FindView(body("find"), { provider, onGo: go, onNeedle: text => timeline.search(text) });
const bookmarks = new Bookmarks(body("bookmarks"), { onGo: go, onChange: list => { timeline.bookmarks = list.map(one => ({ at: provider.toAxis(one.unit, one.instruction), name: one.name })); timeline.draw(); remember(); } });
const bookmark = () => { if (moment.instruction !== null) { bookmarks.add(moment.unit, moment.instruction, moment.value.frames[0]?.function ?? ""); selection.profile.tabs.open("bookmarks"); } };
const offer = makeSettings(byId("settings"), { provider, timeline, onAxis: () => { timeline.first.clear(); timeline.selection = null; timeline.reset(); placeCursor(); offer(); } });
listenToKeys({ timeline, moment, bookmark, search: () => { selection.profile.tabs.open("find"); byId("what").focus(); } });

const placeCursor = () => { if (moment.instruction !== null) { timeline.cursor = { unit: moment.unit, at: provider.toAxis(moment.unit, moment.instruction) }; timeline.draw(); } };

// The address: axis, lanes, what is seen, what is selected, the moment, bookmarks.
let isReady = false, timer = 0;
function remember() {
  if (!isReady) return;
  clearTimeout(timer);
  timer = setTimeout(() => {
    const { view } = timeline, parts = new URLSearchParams();
    if (provider.axis !== "instructions") parts.set("axis", provider.axis);
    if (provider.group !== "cpu") parts.set("lanes", provider.group);
    if (provider.only) parts.set("only", provider.only);
    const [from, to] = provider.extent();
    if (view.from > from || view.to < to) parts.set("view", `${view.from.toFixed(3)}-${view.to.toFixed(3)}`);
    if (timeline.selection) parts.set("select", timeline.selection.join("-"));
    if (moment.instruction !== null) { const { recording, source } = provider.list[moment.unit]; parts.set("at", `${recording}.${source}:${moment.instruction}`); }
    if (bookmarks.list.length) parts.set("marks", bookmarks.list.slice(0, 50).map(one => `${one.unit}:${one.instruction}`).join(","));
    history.replaceState(null, "", "#" + parts);
  }, 150);
}

// Instructions that are counted without being asked for.
const AT_ONCE = 1e8;

async function restore() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const pair = text => { const found = /^(-?[\d.]+)-(-?[\d.]+)$/.exec(text ?? ""); return found && +found[1] < +found[2] ? [+found[1], +found[2]] : null; };
  if (parts.get("axis") === "time" && provider.hasTime) provider.axis = "time";
  if (parts.get("lanes") === "thread") provider.group = "thread";
  if (provider.list[parts.get("only")]) provider.only = parts.get("only");
  const view = pair(parts.get("view"));
  timeline.reset(view ? { from: view[0], to: view[1] } : undefined);
  offer();
  const selected = pair(parts.get("select"));
  if (selected) timeline.select(...selected); else if (provider.units().reduce((sum, unit) => sum + provider.end(unit), 0) <= AT_ONCE || view) selection.set([timeline.view.from, timeline.view.to]);
  else selection.said.textContent = "Select a window to see its profile: drag in the ruler, or Shift and drag.";
  for (const mark of (parts.get("marks") ?? "").split(",").filter(Boolean)) { const [unit, at] = mark.split(":").map(Number); if (provider.list[unit]) bookmarks.add(unit, at, ""); }
  const at = /^(\d+)\.(\d+):(\d+)$/.exec(parts.get("at") ?? "");
  const unit = at ? provider.unit(+at[1], +at[2]) : -1;
  if (unit >= 0) await moment.go(unit, +at[3]);
  else if (provider.units().length) await moment.go(provider.units()[0], provider.toInstruction(provider.units()[0], timeline.view.from), {}, true);
}
addEventListener("hashchange", () => restore());

// How far the index is; with it, the page knows how long everything is.
const progress = byId("progress");
let isIndexed = provider.isIndexed;
follow(async list => {
  const waiting = list.filter(one => !one.is_indexed && !one.failed), failed = list.find(one => one.failed);
  progress.textContent = failed ? failed.failed : "";
  if (waiting.length) {
    const [read, total] = waiting.reduce(([read, total], one) => [read + one.read, total + one.total], [0, 0]), meter = element("span", null, "meter"), bar = element("i");
    bar.style.width = 100 * read / Math.max(1, total) + "%";
    meter.append(bar);
    progress.replaceChildren("indexing ", meter, ` ${short(read)}B of ${short(total)}B: the beginning can be looked at`);
  } else if (!isIndexed && !failed) {
    isIndexed = true;
    provider.set(await ask("overview"));
    showFacts(body("about"), provider.overview);
    await restore();
  }
}, () => { progress.textContent = "the server has ended: start `backsight view` again"; });

showFacts(body("about"), provider.overview);
selection.profile.tabs.open("flame");
if (isIndexed) await restore(); else { timeline.reset(); offer(); }
isReady = true;

// The divider between timeline and panels.
const divider = byId("divider"), upper = byId("timeline"), tall = height => { upper.style.height = Math.max(120, Math.min(innerHeight - 160, height)) + "px"; };
divider.addEventListener("pointerdown", event => { divider.setPointerCapture(event.pointerId); divider.dataset.from = event.clientY - upper.offsetHeight; });
divider.addEventListener("pointermove", event => { if (divider.dataset.from) tall(event.clientY - divider.dataset.from); });
divider.addEventListener("pointerup", () => { delete divider.dataset.from; });
divider.addEventListener("keydown", event => { const by = { ArrowUp: -30, ArrowDown: 30 }[event.key]; if (by) { event.preventDefault(); event.stopPropagation(); tall(upper.offsetHeight + by); } });
// For tests, which look at what is shown.
globalThis.backsight = { provider, timeline, selection, moment, finder, bookmarks, number, get isIndexed() { return isIndexed; } };
