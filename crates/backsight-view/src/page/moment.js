// The moment: where execution is, its stack of calls and its code, and steps from there in both directions.

import { ask } from "./ask.js";
import { codeBox, codeLine } from "./code.js";
import { button, element, number } from "./dom.js";
import { copy } from "./save.js";

const STEPS = [["\u21e4 out", "out", true, "Back to the call of this function (Shift+O)"], ["\u2190 over", "over", true, "Back by a line, over calls (K)"], ["\u2190 line", "into", true, "Back by a line (Shift+L)"],
  ["\u2190", "instruction", true, "Back by an instruction (,)"], ["\u2192", "instruction", false, "On by an instruction (.)"], ["line \u2192", "into", false, "On by a line (L)"],
  ["over \u2192", "over", false, "On by a line, over calls (J)"], ["out \u21e5", "out", false, "On to where this function returns (O)"]];

export class MomentView {
  constructor(parent, { provider, onMove, onFind }) {
    Object.assign(this, { provider, onMove, onFind, unit: 0, instruction: null, value: null });
    this.steps = element("div", null, "steps");
    for (const [text, step, isBack, title] of STEPS) this.steps.append(button(text, title, () => this.step(step, isBack)));
    this.jumps = element("div", null, "steps");
    for (const [text, what, isBack, title] of [["\u2190 call", "function", true, "The call of this function before (Shift+N)"], ["call \u2192", "function", false, "The next call of this function (N)"],
      ["\u2190 exception", "exception", true, "The exception before (Shift+E)"], ["exception \u2192", "exception", false, "The next exception (E)"], ["\u2190 gap", "gap", true, "The gap before"], ["gap \u2192", "gap", false, "The next gap"]]) {
      this.jumps.append(button(text, title, () => this.jump(what, isBack)));
    }
    this.where = element("div", "Click into the timeline to stand at a moment.", "where");
    this.stack = element("div", null, "stack");
    this.code = element("div");
    const bar = element("div", null, "bar");
    bar.append(button("\u2606 bookmark", "Remember this moment (B)", () => this.onFind("bookmark")), button("Copy link", "Copy an address that leads here, as long as the server runs", () => copy(location.href)),
      button("Open here in gdb\u2026", "The command that opens gdb at this moment", () => this.showGdb()));
    this.gdb = element("div", "", "command");
    this.gdb.hidden = true;
    this.said = element("p", "", "note");
    parent.append(element("h2", "Moment"), this.steps, this.jumps, this.where, bar, this.gdb, this.said, this.stack, this.code);
  }

  async go(unit, instruction, values = {}, isQuiet = false) {
    const place = this.provider.list[unit];
    if (!place) return;
    try {
      const value = await ask("at", { recording: place.recording, source: place.source, instruction: Math.max(0, Math.round(instruction)), ...values }, "moment");
      Object.assign(this, { unit, instruction: value.instruction, value });
      this.show();
      this.onMove(unit, value.instruction, isQuiet);
    } catch (error) {
      if (error.name !== "AbortError") this.said.textContent = error.message;
    }
  }

  async step(step, isBack) {
    if (this.instruction === null) return this.go(this.provider.units()[0] ?? 0, 0);
    await this.go(this.unit, this.instruction, { step, back: isBack ? 1 : null });
  }

  // To the next place at which something happens, or to the one before.
  async jump(kind, isBack, what = this.value?.frames[0]?.start) {
    if (this.instruction === null) return;
    const { recording, source } = this.provider.list[this.unit], at = this.instruction;
    const span = isBack ? { to: at, last: 1 } : { from: at + 1, limit: 1 };
    this.said.textContent = "looking \u2026";
    try {
      const { hits } = await ask("find", { recording, source, kind, what, ...span }, "find");
      this.said.textContent = hits.length ? "" : `there is none ${isBack ? "before" : "after"} this moment`;
      if (hits.length) await this.go(this.unit, hits[0].instruction);
    } catch (error) {
      if (error.name !== "AbortError") this.said.textContent = error.message;
    }
  }

  show() {
    const { value, where, stack } = this, top = value.frames[0];
    where.replaceChildren(element("b", `#${number(value.instruction)}`), ` of ${number(value.instructions)}`, ...(value.time !== null ? [`, time ${this.provider.time(value.time)}`] : []),
      `, ${value.thread ?? ""}, ${value.address}, ${number(value.depth)} calls deep`);
    for (const event of value.events) where.append(element("div", event, "note"));
    this.said.textContent = value.stopped;
    this.gdb.hidden = true;
    const frames = value.frames.map((frame, place) => {
      const line = button("", frame.module ?? "", () => this.showFrame(frame));
      line.className = "frame" + (place ? "" : " first");
      line.append(element("span", frame.function + (frame.offset ? `+0x${frame.offset.toString(16)}` : "") + (frame.is_handler ? " (exception)" : "")),
        element("span", frame.line ? `${frame.file.split("/").pop()}:${frame.line}` : frame.address, "dim"));
      return line;
    });
    if (value.more_frames || value.is_deeper) frames.push(element("p", value.more_frames ? `${number(value.more_frames)} more calls around these` : "calls around these are not known any more", "note"));
    stack.replaceChildren(...frames);
    if (top) this.showFrame(top);
  }

  // The code of a frame: that of a function is kept as long as the moment stays in it.
  async showFrame(frame) {
    const key = `${this.unit} ${frame.start ?? frame.address}`;
    this.frame = frame;
    if (this.known?.key !== key) {
      const { recording, source } = this.provider.list[this.unit];
      try {
        const code = await ask("code", { recording, source, instruction: this.instruction, address: BigInt(frame.address).toString() }, "code");
        this.known = { key, code };
      } catch (error) {
        if (error.name !== "AbortError") this.said.textContent = error.message;
        return;
      }
    }
    if (this.frame === frame) this.showCode(frame);
  }

  showCode(frame) {
    const { code } = this.known, list = [];
    let here = null;
    const jump = (line, kind, what, title) => { line.classList.add("jump"); line.title = title; line.addEventListener("click", event => this.jump(kind, event.shiftKey, what)); return line; };
    if (code.lines?.length) {
      list.push(codeBox(code.file, code.lines.map(([place, text]) => {
        const isHere = frame.line === place && frame.file === code.file, line = codeLine([[place, "place"], [text, "text"]], isHere ? "here" : "");
        if (isHere) here ??= line;
        return jump(line, "line", `${code.file}:${place}`, "Click: run on to this line; with Shift: back to it");
      })));
    }
    let last = "", spot = null;
    const rows = [];
    for (const [address, text, file, number] of code.instructions) {
      const place = number ? `${file.split("/").pop()}:${number}` : "";
      if (place && place !== last) rows.push(codeLine([[place, "source"]], "from"));
      last = place || last;
      const isHere = address === frame.address, line = codeLine([[address, "place"], [text, "text"]], isHere ? "here" : "");
      if (isHere) spot = line;
      rows.push(jump(line, "address", address, "Click: run on to this instruction; with Shift: back to it"));
    }
    list.push(codeBox(code.name ?? frame.function, rows));
    this.code.replaceChildren(...list);
    // Only the boxes move, not what is around them.
    for (const line of [here, spot]) if (line) { const around = line.parentNode; around.scrollTop = line.offsetTop - around.offsetTop - around.clientHeight / 2.5; }
  }

  showGdb() {
    if (this.instruction === null) return;
    const { recording, source } = this.provider.list[this.unit], { id, buffer } = this.provider.overview.recordings[recording].sources[source];
    const words = [...(this.provider.overview.gdb[recording] ?? ["backsight", "gdb"]), "--at", `#${this.instruction}`, "--id", String(id), "--buffer", buffer];
    const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
    this.gdb.textContent = words.map(quoted).join(" ");
    this.gdb.hidden = false;
    copy(this.gdb.textContent);
  }
}
