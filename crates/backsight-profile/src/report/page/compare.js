// Two profiles side by side: frames are as red as the other one has more, and as blue as it has less.

import { button, element, field, isDark, number } from "./dom.js";
import { FlameGraph } from "./flame.js";
import { Table } from "./table.js";
import { nodesOf } from "./tree.js";

const signed = n => (n > 0 ? "+" : n < 0 ? "\u2212" : "") + number(Math.abs(n));
const ratio = (one, other) => one ? (other / one).toFixed(3) : other ? "new" : "\u2013";
const ratioValue = (one, other) => one ? other / one : other ? Infinity : -1;

function pairTree({ names, nodes }) {
  const all = nodes.map(([name, parent, own, calls]) => ({ name: names[name], parent, owns: own, calls, totals: [...own], up: null, children: [] }));
  const root = { name: "all", owns: [0, 0], calls: [0, 0], totals: [0, 0], up: null, children: [] };
  for (let place = all.length - 1; place >= 0; place--) {
    const node = all[place], up = node.parent === null ? root : all[node.parent];
    node.up = up;
    up.children.push(node);
    up.totals[0] += node.totals[0];
    up.totals[1] += node.totals[1];
  }
  return root;
}

function shade(node) {
  const [one, other] = node.totals, difference = (other - one) / Math.max(1, one, other), strength = Math.abs(difference), dark = isDark();
  if (strength < 0.005) return dark ? "#3a3f47" : "#e4e2de";
  return `hsl(${difference > 0 ? 4 : 212} ${Math.round(40 + 45 * strength)}% ${Math.round(dark ? 30 + 8 * strength : 88 - 26 * strength)}%)`;
}

export class Comparison {
  constructor(parent) {
    this.sides = element("p", "", "note");
    const bar = element("div", null, "bar");
    this.width = button("", "Change which side frames are as wide as on", () => { this.side = 1 - this.side; this.widen(); });
    bar.append(field("Search functions", text => this.graph.search(text)), this.width, button("Whole", "Show all of it", () => this.graph.zoom(this.root)));
    const legend = element("p", null, "note legend");
    for (const [kind, text] of [["more", "the other has more"], ["less", "the other has less"]]) legend.append(element("span", null, "swatch " + kind), text);
    parent.append(this.sides, bar, legend);
    this.side = 1;
    this.graph = new FlameGraph(parent, {
      fill: shade,
      words: node => [node.name, `${number(node.totals[0])} and ${number(node.totals[1])} ${this.unit} with what it called: ${signed(node.totals[1] - node.totals[0])}, ratio ${ratio(...node.totals)}`,
        `own ${number(node.owns[0])} and ${number(node.owns[1])}, calls ${number(node.calls[0])} and ${number(node.calls[1])}`],
    });
    const columns = (title, one, other) => [
      { title, is: "name", value: row => row[0] },
      { title: "This", is: "n", value: one, width: "9em" }, { title: "Other", is: "n", value: other, width: "9em" },
      { title: "Difference", is: "n", value: row => other(row) - one(row), text: row => signed(other(row) - one(row)), kind: row => other(row) > one(row) ? "more" : other(row) < one(row) ? "less" : "", width: "9em" },
      { title: "Ratio", is: "n", value: row => ratioValue(one(row), other(row)), text: row => ratio(one(row), other(row)), width: "6em" },
    ];
    parent.append(element("h2", "Functions"));
    this.functions = new Table(parent, [...columns("Function", row => row[2], row => row[3]),
      { title: "Calls, this", is: "n", value: row => row[4], width: "8em" }, { title: "Calls, other", is: "n", value: row => row[5], width: "8em" },
      { title: "File", value: row => row[1], is: "name", width: "10em" }], { sort: 3, search: "Search functions" });
    this.linesTitle = element("h2", "Lines of source");
    const lines = element("div");
    parent.append(this.linesTitle, lines);
    this.lines = new Table(lines, columns("Line of source", row => row[1], row => row[2]), { sort: 3, search: "Search lines" });
    // The largest difference first, whichever way it goes.
    this.functions.columns[3].value = row => Math.abs(row[3] - row[2]);
    this.lines.columns[3].value = row => Math.abs(row[2] - row[1]);
  }

  set({ names, functions, lines, tree, unit, omitted }) {
    this.unit = this.graph.unit = unit;
    this.sides.textContent = `This: ${names[0]} \u00b7 Other: ${names[1]}`;
    this.root = pairTree(tree);
    this.widen();
    this.functions.set(functions, omitted.functions ? `${number(omitted.functions)} with smaller differences are not listed` : "");
    this.lines.set(lines, omitted.lines ? `${number(omitted.lines)} with smaller differences are not listed` : "");
    this.linesTitle.textContent = lines.length ? "Lines of source, in instructions" : "No code has lines of source.";
    this.lines.scroll.hidden = !lines.length;
  }

  widen() {
    for (const node of nodesOf(this.root)) {
      [node.total, node.own] = [node.totals[this.side], node.owns[this.side]];
      node.children.sort((a, b) => b.totals[this.side] - a.totals[this.side]);
    }
    this.width.textContent = `Widths: ${["this", "other"][this.side]}`;
    this.graph.set(this.root);
  }
}
