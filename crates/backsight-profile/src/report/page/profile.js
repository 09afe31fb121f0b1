// A profile: flame graph, functions with callers, callees and code, branches, loops.

import { button, choice, element, field, number, percent, plural, tabs } from "./dom.js";
import { functionCode } from "./code.js";
import { FlameGraph } from "./flame.js";
import { Table } from "./table.js";
import { bottomUp, callTree, relations, sandwich } from "./tree.js";

const MODES = [["top", "Top down"], ["bottom", "Bottom up"], ["sandwich", "Callers and callees"]];

export class ProfileView {
  // code: gives the code of a function, or a promise of it. more: tabs besides.
  constructor(parent, { code, more = [], onOpen, onFunction } = {}) {
    this.code = code;
    this.onFunction = onFunction;
    this.tabs = tabs(parent, [["flame", "Flame graph"], ["functions", "Functions"], ["branches", "Branches"], ["loops", "Loops"], ...more], id => { this.open(id); onOpen?.(id); });
    this.makeFlames(this.tabs.body("flame"));
    this.makeFunctions(this.tabs.body("functions"));
    const place = { title: "Line", is: "name", value: row => row.line, width: "18em" };
    this.branches = new Table(this.tabs.body("branches"), [
      { title: "Rarer way", help: "How often the branch went the way that it goes less often", is: "n", value: row => Math.min(row.taken, row.not), width: "8em" },
      { title: "Function", is: "name", value: row => row.function }, place,
      { title: "Taken", is: "n", value: row => row.taken, width: "8em" }, { title: "Not taken", is: "n", value: row => row.not, width: "8em" },
      { title: "Taken %", is: "n", value: row => row.taken / (row.taken + row.not), text: row => (100 * row.taken / (row.taken + row.not)).toFixed(1), width: "6em" },
      { title: "Entropy (bits)", is: "n", value: row => row.entropy, text: row => row.entropy.toFixed(3), width: "7em" },
      { title: "Address", value: row => row.address, width: "9em" }], { search: "Search branches", most: "60vh" });
    this.loops = new Table(this.tabs.body("loops"), [
      { title: "Iterations", is: "n", value: row => row.iterations, width: "9em" },
      { title: "Function", is: "name", value: row => row.function }, place,
      { title: "Times entered", is: "n", value: row => row.entries, width: "8em" },
      { title: "Iterations per entry", is: "n", value: row => row.iterations / Math.max(1, row.entries), text: row => (row.iterations / Math.max(1, row.entries)).toFixed(1), width: "9em" },
      { title: "Nesting depth", is: "n", value: row => row.depth, width: "7em" },
      { title: "Address", value: row => row.address, width: "9em" }], { search: "Search loops", most: "60vh" });
  }

  makeFlames(body) {
    const bar = element("div", null, "bar");
    this.mode = choice("Flame graph:", MODES, () => this.drawFlames());
    bar.append(this.mode, field("Search functions", text => { this.graph.search(text); this.above.search(text); }),
      button("Whole", "Show all of it", () => { this.graph.zoom(this.graph.root); }),
      button("SVG", "Save the picture as SVG", () => this.graph.saveSvg("flames.svg")), button("PNG", "Save the picture as PNG", () => this.graph.savePng("flames.png")));
    this.said = element("p", "", "note");
    body.append(bar, this.said);
    this.aboveTitle = element("h2", "");
    this.upper = element("div");
    body.append(this.upper, this.aboveTitle);
    const pick = node => { this.chosen = node.name; };
    this.above = new FlameGraph(this.upper, { onPick: pick, most: "28vh" });
    this.graph = new FlameGraph(body, { onPick: pick, most: "60vh" });
  }

  makeFunctions(body) {
    const split = element("div", null, "split"), left = element("div"), right = element("div", null, "detail");
    split.append(left, right);
    body.append(split);
    this.detail = right;
    this.functions = new Table(left, [
      { title: "Function", is: "name", value: row => row.name },
      { title: "Self", help: "Instructions of its own", is: "n", value: row => row.instructions, bar: row => row.instructions / this.most, width: "8em" },
      { title: "Self %", is: "n", value: row => row.instructions, text: row => percent(row.instructions, this.data.instructions), width: "6em" },
      { title: "Inclusive", help: "Instructions with what it called", is: "n", value: row => row.inclusive, width: "8em" },
      { title: "Cycles", is: "n", value: row => row.cycles, width: "8em" },
      { title: "Calls", is: "n", value: row => row.entries, width: "7em" },
      { title: "File", is: "name", value: row => row.module, width: "6em" }], { sort: 1, search: "Search functions", most: "60vh", onPick: row => this.showFunction(row) });
  }

  set(data, words = "") {
    this.data = data;
    this.tree = callTree(data.tree);
    this.chosen = null;
    this.most = Math.max(1, data.functions[0]?.instructions ?? 1);
    const { omitted } = data, left = [];
    if (omitted.nodes) left.push(`${plural(omitted.nodes, "chain")} of calls too small to be shown are in the figures of their callers`);
    if (omitted.folded_calls) left.push(`${plural(omitted.folded_calls, "call")} of too many different chains are in the figures of their callers`);
    if (omitted.unknown_path) left.push(`${plural(omitted.unknown_path, "instruction")} were executed on a path that is not known`);
    if (omitted.breaks) left.push(`something is missing in the trace ${plural(omitted.breaks, "time")}`);
    this.said.textContent = [words, ...left].filter(Boolean).join("; ");
    this.said.hidden = !this.said.textContent;
    this.graph.unit = this.above.unit = data.unit;
    const rest = (n, thing) => n ? `${number(n)} ${thing} are not listed` : "";
    this.functions.hide("Cycles", !data.cycles);
    this.functions.set(data.functions, rest(omitted.functions, "that executed less"));
    this.branches.set(data.branches, rest(omitted.branches, "that are easier to predict"));
    this.loops.set(data.loops, rest(omitted.loops, "that iterate less"));
    this.detail.replaceChildren(element("p", "Choose a function to see its callers, its callees and its code.", "note"));
    this.drawFlames();
  }

  open(id) {
    if (id === "flame") { this.graph.layout(); this.above.layout(); }
    else this[id]?.fill?.();
  }

  drawFlames() {
    if (!this.tree) return;
    const mode = this.mode.select.value, isSandwich = mode === "sandwich";
    this.upper.hidden = !isSandwich;
    this.aboveTitle.hidden = !isSandwich;
    if (isSandwich) {
      const name = this.chosen ?? this.data.functions[0]?.name ?? "";
      const { callers, callees } = sandwich(this.tree, name);
      this.aboveTitle.textContent = `${name}: above, who called it; below, what it called`;
      this.above.set(callers);
      this.graph.set(callees);
    } else this.graph.set(mode === "top" ? this.tree : bottomUp(this.tree));
  }

  // Shows a function by its name, in whatever is open.
  choose(name) {
    this.chosen = name;
    const row = this.data?.functions.find(one => one.name === name);
    if (row) { this.tabs.open("functions"); this.functions.pick(row); }
  }

  async showFunction(row) {
    this.chosen = row.name;
    const { callers, callees } = relations(this.tree, row.name), { detail } = this;
    detail.replaceChildren(element("h2", row.name, "wrap"));
    const bar = element("div", null, "bar");
    bar.append(element("span", `${plural(row.instructions, "instruction")} of its own, ${number(row.inclusive)} with what it called, ${plural(row.entries, "call")}`, "note grow"),
      button("In the flame graph", "Callers above it, callees below it", () => { this.mode.select.value = "sandwich"; this.tabs.open("flame"); this.drawFlames(); }));
    if (this.onFunction) bar.append(...this.onFunction(row));
    detail.append(bar);
    const pair = element("div", null, "pair");
    for (const [title, list] of [["Callers", callers], ["Callees", callees]]) {
      const half = element("div"), rows = element("div", null, "relations");
      half.append(element("h3", title), rows);
      for (const { name, total, calls } of list.slice(0, 100)) {
        const line = button("", name, () => this.choose(name));
        line.className = "relation";
        line.append(element("span", name, "text"), element("span", number(total), "n"), element("span", number(calls) + "×", "n dim"));
        rows.append(line);
      }
      if (!list.length) rows.append(element("p", "none", "note"));
      if (list.length > 100) rows.append(element("p", `${number(list.length - 100)} more`, "note"));
      pair.append(half);
    }
    detail.append(pair);
    const place = element("div");
    detail.append(place);
    const code = await this.code(row);
    if (this.chosen === row.name) place.replaceChildren(code === undefined ? element("p", "Only the functions that executed most have their code in the file.", "note") : functionCode(code));
  }
}
