// What can be switched, and what is known of the capture.

import { button, choice, element, number, setTheme } from "./dom.js";
import { showHelp } from "./keys.js";
import { KINDS } from "./lanes.js";
import { COUNTERS } from "./provider.js";

export function makeSettings(parent, { provider, timeline, onAxis }) {
  const axis = choice("Axis", [["instructions", "instructions"], ["time", "time"]], value => { provider.axis = value; onAxis(); });
  const lanes = choice("Lanes", [["cpu", "by CPU"], ["thread", "by thread"]], value => { provider.group = value; onAxis(); });
  const sources = choice("Sources", [["", "all"]], value => { provider.only = value; onAxis(); });
  const counter = choice("Counter", COUNTERS, value => { timeline.counter = value; timeline.changed(); });
  const theme = choice("Look", [["", "as the system"], ["light", "light"], ["dark", "dark"]], value => setTheme(value));
  const marks = element("span", null, "bar");
  for (const kind of KINDS) {
    const label = element("label", null, "mark"), box = element("input"), sign = element("i", null, `mark-${kind}`);
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => { box.checked ? timeline.kinds.add(kind) : timeline.kinds.delete(kind); timeline.draw(); });
    label.append(box, sign, kind);
    marks.append(label);
  }
  parent.append(axis, lanes, sources, counter, theme, marks, button("All", "Show all of the capture (0)", () => timeline.show(...provider.extent())),
    button("SVG", "Save the timeline as SVG", () => timeline.saveSvg("timeline.svg")), button("PNG", "Save the timeline as PNG", () => timeline.savePng("timeline.png")), button("?", "Keys", showHelp));
  return () => {
    axis.select.options[1].disabled = !provider.hasTime;
    axis.select.value = provider.axis;
    lanes.select.value = provider.group;
    const names = provider.list.map((unit, place) => { const option = element("option", unit.name); option.value = String(place); return option; });
    sources.select.replaceChildren(sources.select.options[0], ...names);
    sources.select.value = provider.only;
  };
}

export function showFacts(body, overview) {
  const list = [];
  for (const recording of overview.recordings) {
    const facts = element("dl"), fact = (name, value) => { if (value !== null && value !== undefined && value !== "") facts.append(element("dt", name), element("dd", value)); };
    list.push(element("h2", recording.name));
    fact("What it is", recording.description);
    fact("Trace", `${number(recording.bytes)} bytes`);
    for (const source of recording.sources) {
      fact("Source", `${source.name}, ID ${source.id} of ${source.buffer}, ${source.protocol ?? "unknown protocol"}` + (source.instructions === null ? "" : `, ${number(source.instructions)} instructions, ${number(source.points ?? 0)} points to begin at`));
    }
    for (const module of recording.modules ?? []) fact("Code", module);
    for (const warning of recording.warnings) list.push(element("p", warning, "warn"));
    list.push(facts);
  }
  if (!overview.has_sources) list.push(element("p", "Lines of source are not shown: start with --source FOLDER.", "note"));
  body.replaceChildren(...list);
}
