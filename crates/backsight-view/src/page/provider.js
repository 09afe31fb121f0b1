// What the timeline shows, asked for from the server: sources, lanes, clocks and charts.

import { ask } from "./ask.js";
import { Clock } from "./clock.js";
import { number, short } from "./dom.js";

export const COUNTERS = [["", "none"], ["bytes", "trace, bytes per 1000 instructions"], ["speed", "instructions per tick"], ["exceptions", "exceptions"], ["gaps", "gaps"],
  ["contexts", "context switches"], ["entries", "functions entered"]];

export class Provider {
  constructor() {
    Object.assign(this, { axis: "instructions", group: "cpu", only: "", list: [], addresses: new Map() });
  }

  set(overview) {
    this.overview = overview;
    this.list = overview.recordings.flatMap((recording, r) => recording.sources.map((source, s) => ({
      recording: r, source: s, name: overview.recordings.length > 1 ? `${recording.name}: ${source.name}` : source.name, known: source.lanes,
      instructions: source.instructions, clock: new Clock(source.times, source.instructions), frequency: recording.frequency,
    })));
    // Before there is an index, nobody knows how long a source is.
    this.list = this.list.filter(unit => unit.instructions !== 0);
    if (!this.hasTime) this.axis = "instructions";
  }

  get hasTime() { return this.list.length > 0 && this.list.every(unit => unit.clock.isKnown); }
  get isIndexed() { return this.list.every(unit => unit.instructions !== null); }
  unit(recording, source) { return this.list.findIndex(one => one.recording === recording && one.source === source); }
  wanted(unit) { return this.only === "" || this.only === String(unit); }
  units() { return this.list.map((_, unit) => unit).filter(unit => this.wanted(unit)); }
  end(unit) { return this.list[unit].instructions ?? 1 << 20; }

  extent() {
    const units = this.units();
    if (this.axis === "time") return [Math.min(...units.map(unit => this.list[unit].clock.from)), Math.max(...units.map(unit => this.list[unit].clock.to))];
    return [0, Math.max(1, ...units.map(unit => this.end(unit)))];
  }

  toAxis(unit, instruction) { return this.axis === "time" ? this.list[unit].clock.time(instruction) : instruction; }
  toInstruction(unit, at) {
    const found = this.axis === "time" ? this.list[unit].clock.instruction(at) : Math.round(at);
    return Math.max(0, Math.min(this.end(unit), found));
  }

  lanes() {
    return this.units().flatMap(unit => (this.list[unit].known ?? []).map(lane => this.laneOf(unit, this.keyOf(lane), lane)));
  }
  keyOf(lane) { return `${lane.hart}/${lane.thread ?? ""}`; }
  // By thread, parts of all sources are in one lane; by CPU, all threads of one.
  laneOf(unit, key, lane = this.laneNames?.get(`${unit}/${key}`)) {
    const [hart, thread] = key.split("/"), name = lane?.name ?? this.list[unit].name, core = name.split(": ")[0];
    const multiple = this.overview.recordings.length > 1 ? `${this.overview.recordings[this.list[unit].recording].name}: ` : "";
    (this.laneNames ??= new Map()).set(`${unit}/${key}`, { name });
    if (this.group === "thread" && thread) return { id: `${multiple}t${thread}`, name: multiple + name.split(": ").slice(1).join(": "), order: 1e6 };
    return { id: `${unit}/${hart}`, name: multiple + core, order: unit };
  }

  async chart(unit, from, to, columns, first, rows, isFine, purpose = "now") {
    const { recording, source } = this.list[unit], [begin, end] = [this.toInstruction(unit, from), this.toInstruction(unit, to)];
    if (end <= begin) return { from, to, kind: "nothing", words: "", parts: new Map() };
    const answer = await ask("calls", { recording, source, from: begin, to: end, columns: Math.max(50, columns), first, rows, places: isFine ? 192 : 40 }, `calls-${purpose}-${unit}`);
    if (answer.kind === "all" && answer.times.length) this.list[unit].clock.add(answer.times);
    const axis = this.axis === "time" ? at => this.list[unit].clock.time(at) : at => at, parts = new Map();
    const back = at => this.toInstruction(unit, at);
    const made = answer.lanes.map(lane => {
      const key = this.keyOf(lane), part = { calls: [], sums: [], marks: [], rows: lane.rows, unit: back };
      this.laneOf(unit, key, lane);
      parts.set(key, part);
      return part;
    });
    for (const [number, [name, address]] of Object.entries(answer.names)) { answer.names[number] = name; this.addresses.set(name, address); }
    for (const [lane, row, from, to, name, flags] of answer.calls) made[lane].calls.push([row, axis(from), axis(to), answer.names[name], flags]);
    for (const [lane, row, from, to, name, instructions, calls] of answer.sums) made[lane].sums.push([row, axis(from), axis(to), answer.names[name], instructions, calls]);
    for (const [lane, at, kind, words] of answer.marks) made[lane].marks.push([axis(at), kind, words]);
    return { from, to, kind: answer.kind, words: this.said(answer), parts };
  }

  said({ kind, from, to, looked_at, more_marks }) {
    if (kind === "waiting") return "the index is being made: the beginning can be looked at already";
    const marks = more_marks ? `${short(more_marks)} marks are not shown` : "";
    if (kind !== "places") return marks;
    return `${short(looked_at)} of ${short(to - from)} instructions were looked at, in places spread over the window: calls that go on from one to another are all there, small ones are those of the places`;
  }

  async counter(unit, from, to, columns, kind) {
    const { recording, source, clock } = this.list[unit], [begin, end] = [this.toInstruction(unit, from), this.toInstruction(unit, to)];
    if (end <= begin) return [];
    const slopes = list => list.slice(1).map(([at, value], place) => [this.toAxis(unit, at), Math.max(0, value - list[place][1]) / Math.max(1e-9, at - list[place][0])]);
    if (kind === "speed") return clock.times.filter(([at]) => at >= begin && at <= end).slice(1).map(([at, time], place, all) => [this.toAxis(unit, at), place ? (at - all[place - 1][0]) / Math.max(1e-9, time - all[place - 1][1]) : 0]).slice(1);
    const answer = await ask("counters", { recording, source, from: begin, to: end, columns }, `counter-${unit}`);
    if (!answer) return [];
    if (kind === "bytes") return slopes(answer.bytes).map(([at, value]) => [at, value * 1000]);
    const place = ["exceptions", "gaps", "contexts", "entries"].indexOf(kind);
    return answer.counts.map((all, column) => [this.toAxis(unit, begin + (end - begin) * (column + 0.5) / answer.counts.length), all[place]]);
  }
  counterName(kind) { return COUNTERS.find(one => one[0] === kind)?.[1] ?? kind; }

  // Times as people say them, where the capture says how fast its clock goes.
  time(ticks, size = 0) {
    const frequency = this.list[0]?.frequency;
    if (!frequency) return `+${number(Math.round(ticks))}`;
    const seconds = ticks / frequency, least = size / frequency;
    for (const [unit, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]) {
      if ((least || Math.abs(seconds)) >= unit || name === "ns") return `${(seconds / unit).toLocaleString("en", { maximumFractionDigits: least ? 1 : 3 })} ${name}`;
    }
    return "";
  }
  ruler(value, size) { return this.axis === "time" ? this.time(value, size) : "#" + number(Math.round(value)); }
  words(value) { return this.axis === "time" ? this.time(value) : "#" + number(Math.round(value)); }

  // What a stretch of the axis is, as the server is asked for it.
  windows([from, to]) {
    const parts = this.units().map(unit => [this.list[unit], this.toInstruction(unit, from), this.toInstruction(unit, to)]);
    const { recording } = this.list[this.units()[0]] ?? {};
    return parts.filter(([unit, begin, end]) => end > begin && unit.recording === recording).map(([unit, begin, end]) => `${unit.recording}.${unit.source}:${begin}-${end}`).join(",");
  }
}
