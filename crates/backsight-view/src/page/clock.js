// What time it was after how many instructions, as far as the trace says: between two times, instructions are taken to go on evenly.

const MOST = 60000;

// The last place of a sorted list whose value is not above another one.
function before(list, field, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle][field] <= value) low = middle + 1; else high = middle;
  }
  return low - 1;
}

export class Clock {
  constructor(times, instructions) {
    this.times = times ?? [];
    this.instructions = instructions;
  }
  get isKnown() { return this.times.length > 1 && this.times.at(-1)[1] > this.times[0][1]; }
  get from() { return this.times[0]?.[1] ?? 0; }
  get to() { return this.times.at(-1)?.[1] ?? 0; }

  // More times of a window that was looked at closely.
  add(more) {
    if (this.times.length + more.length > MOST || !this.times.length) return;
    const all = [...this.times, ...more].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    this.times = all.filter((one, place) => !place || one[0] > all[place - 1][0] && one[1] >= all[place - 1][1]);
  }

  between(value, one, other) {
    const { times } = this, last = Math.max(0, Math.min(times.length - 2, before(times, one, value))), a = times[last], b = times[last + 1];
    if (!a || !b) return value;
    const share = (value - a[one]) / Math.max(1e-9, b[one] - a[one]);
    return a[other] + Math.max(0, Math.min(1, share)) * (b[other] - a[other]);
  }
  time(instruction) { return this.between(instruction, 0, 1); }
  instruction(time) { return Math.round(this.between(time, 1, 0)); }
}
