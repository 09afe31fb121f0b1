// Search by function, line, address, message, exception, gap and context; and bookmarks.

import { ask } from "./ask.js";
import { button, choice, element, field, number } from "./dom.js";

const KINDS = [["function", "Function"], ["line", "Line (file.c:17)"], ["address", "Address (0x4006f0)"], ["message", "Message"], ["exception", "Exceptions"], ["gap", "Gaps"], ["context", "Context"]];

export class FindView {
  constructor(parent, { provider, onGo, onNeedle }) {
    Object.assign(this, { provider, onGo });
    const bar = element("form", null, "bar");
    this.kind = choice("Find", KINDS, kind => { this.what.disabled = kind === "exception" || kind === "gap"; this.names.replaceChildren(); });
    this.what = field("What to find", text => { if (this.kind.select.value === "function") { onNeedle(text); this.offer(text); } });
    this.what.id = "what";
    this.names = element("datalist");
    this.names.id = "names";
    this.what.setAttribute("list", "names");
    bar.append(this.kind, this.what, this.names, button("Find", "The first moments of it, of each source", () => this.find()));
    bar.addEventListener("submit", event => { event.preventDefault(); this.find(); });
    this.said = element("p", "", "note");
    this.hits = element("div", null, "hits");
    this.hits.hidden = true;
    parent.append(bar, this.said, this.hits);
  }

  async offer(text) {
    if (text.length < 2) return;
    const lists = await Promise.all(this.provider.overview.recordings.map((_, recording) => ask("functions", { recording, what: text }, `names-${recording}`).catch(() => [])));
    this.names.replaceChildren(...[...new Set(lists.flat().map(one => one[0]))].slice(0, 100).map(name => { const option = element("option"); option.value = name; return option; }));
  }

  async find(kind = this.kind.select.value, what = this.what.value.trim(), more = {}) {
    this.said.textContent = "looking \u2026";
    this.hits.hidden = true;
    const all = [], failures = [];
    let isCut = false;
    for (const unit of this.provider.units()) {
      const { recording, source } = this.provider.list[unit];
      try {
        const { hits, is_cut } = await ask("find", { recording, source, kind, what, limit: 200, ...more }, "search");
        isCut ||= is_cut;
        all.push(...hits.map(hit => ({ ...hit, unit })));
      } catch (error) {
        if (error.name === "AbortError") return;
        failures.push(error.message);
      }
    }
    this.said.textContent = all.length ? `${number(all.length)}${isCut ? " of more" : ""} moments` : failures[0] ?? "nothing of that is in the trace";
    this.hits.hidden = !all.length;
    this.hits.replaceChildren(...all.map(hit => {
      const line = button("", hit.words, () => this.onGo(hit.unit, hit.instruction));
      line.className = "hit";
      line.append(element("span", `#${number(hit.instruction)}`), element("span", hit.words), element("span", hit.lane, "dim"));
      return line;
    }));
  }
}

export class Bookmarks {
  constructor(parent, { onGo, onChange }) {
    Object.assign(this, { onGo, onChange, list: [] });
    this.box = element("div", null, "hits");
    this.note = element("p", "B remembers the moment that you stand at.", "note");
    parent.append(this.note, this.box);
    this.show();
  }
  add(unit, instruction, name) {
    if (this.list.some(one => one.unit === unit && one.instruction === instruction)) return;
    this.list.push({ unit, instruction, name });
    this.show();
    this.onChange(this.list);
  }
  show() {
    this.box.hidden = !this.list.length;
    this.box.replaceChildren(...this.list.map((one, place) => {
      const line = element("div", null, "bar"), go = button("", one.name, () => this.onGo(one.unit, one.instruction));
      go.className = "hit grow";
      go.append(element("span", `#${number(one.instruction)}`), element("span", one.name));
      line.append(go, button("\u00d7", "Forget it", () => { this.list.splice(place, 1); this.show(); this.onChange(this.list); }));
      return line;
    }));
  }
}
