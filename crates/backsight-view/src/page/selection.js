// What is selected: its profile, what exporters make of it, and its difference to another one.

import { ask } from "./ask.js";
import { Comparison } from "./compare.js";
import { button, choice, element, number, plural } from "./dom.js";
import { ProfileView } from "./profile.js";
import { save } from "./save.js";

export class SelectionView {
  constructor(parent, { provider, timeline, more, onOpen, onFunction }) {
    Object.assign(this, { provider, timeline, windows: "", other: "" });
    const bar = element("div", null, "bar");
    this.said = element("span", "", "note grow");
    this.format = choice("Export", [["", "as \u2026"], ...provider.overview.formats.map(([name, title, readers]) => [name, `${name}: ${title}, for ${readers}`])], format => this.export(format));
    this.weight = choice("Weight", [["instructions", "instructions"], ["cycles", "cycles"]], () => this.count());
    bar.append(this.said, button("Profile this view", "Count the window of the timeline", () => this.set([this.timeline.view.from, this.timeline.view.to])), this.weight,
      button("Compare \u2026", "Keep this as one side; what is selected next is the other", () => this.keep()), this.format);
    this.side = element("p", "", "note");
    parent.append(bar, this.side);
    this.profile = new ProfileView(parent, { code: row => ask("function", { w: this.windows, function: row.number }, "function").catch(() => undefined), more: [["compare", "Comparison"], ...more], onOpen, onFunction });
    this.comparison = new Comparison(this.profile.tabs.body("compare"));
    this.profile.tabs.show("compare", false);
    parent.dataset.state = "empty";
    this.parent = parent;
  }

  // A stretch of the axis.
  set(span) {
    const windows = this.provider.windows(span);
    if (!windows || windows === this.windows) return;
    this.windows = windows;
    this.span = span;
    return this.count();
  }

  words(windows) {
    return windows.split(",").slice(0, 3).map(part => { const [place, span] = part.split(":"), [from, to] = span.split("-"), [r, s] = place.split(".");
      return `${this.provider.list[this.provider.unit(+r, +s)]?.name ?? ""} #${number(from)} to #${number(to)}`; }).join(", ") + (windows.split(",").length > 3 ? " \u2026" : "");
  }

  async count() {
    if (!this.windows) return;
    this.said.textContent = `counting ${this.words(this.windows)} \u2026`;
    this.parent.dataset.state = "counting";
    const { windows } = this, weight = this.weight.select.value;
    try {
      const data = await ask("profile", { w: windows, weight }, "profile");
      if (windows !== this.windows) return;
      this.said.textContent = `${plural(data.instructions, "instruction")}${data.cycles ? `, ${plural(data.cycles, "cycle")}` : ""} of ${this.words(windows)}`;
      this.profile.set(data, this.isWhole() ? "" : "calls under way when the window begins are counted from there on");
      this.parent.dataset.state = "done";
      if (this.other) await this.compare();
    } catch (error) {
      if (error.name === "AbortError") return;
      this.said.textContent = error.message;
      this.parent.dataset.state = "failed";
    }
  }

  isWhole() { const [from, to] = this.provider.extent(); return this.span && this.span[0] <= from && this.span[1] >= to; }

  keep() {
    if (!this.windows) return;
    if (this.other) {
      this.other = "";
      this.side.textContent = "";
      return this.profile.tabs.show("compare", false);
    }
    this.other = this.windows;
    this.side.textContent = `Compared with ${this.words(this.other)}: select the other side, here or in another capture. The same button ends it.`;
    this.profile.tabs.show("compare", true);
    this.profile.tabs.open("compare");
    this.compare();
  }

  async compare() {
    try {
      this.comparison.set(await ask("compare", { a: this.other, b: this.windows, weight: this.weight.select.value }, "compare"));
    } catch (error) {
      if (error.name !== "AbortError") this.side.textContent = error.message;
    }
  }

  async export(format) {
    this.format.select.value = "";
    if (!format) return;
    if (!this.windows) this.windows = this.provider.windows([this.timeline.view.from, this.timeline.view.to]);
    const before = this.said.textContent;
    this.said.textContent = `writing ${format} \u2026`;
    try {
      const { blob, name } = await ask("export", { w: this.windows, format, weight: this.weight.select.value }, "export");
      save(name, blob);
      this.said.textContent = before;
    } catch (error) {
      if (error.name !== "AbortError") this.said.textContent = error.message;
    }
  }
}
