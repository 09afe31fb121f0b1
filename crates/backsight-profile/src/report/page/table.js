// Tables that are sorted by a click and searched. Rows that are not seen are not made: there may be many.

import { button, element, field, number, onLook, oncePerFrame, plural } from "./dom.js";
import { copy, tabbed } from "./save.js";

const HIGH = 26;

// columns: { title, value: row => number or text, text: row => text, is: "n" for numbers, "name" for what may be long, bar: row => 0..1 }
export class Table {
  constructor(parent, columns, { sort = 0, search = "", onPick, most = "45vh", note } = {}) {
    Object.assign(this, { columns, onPick, rows: [], shown: [], needle: "", picked: null, sort, isUp: columns[sort]?.is !== "n" });
    const bar = element("div", null, "bar");
    if (search) { this.field = field(search, text => { this.needle = text.toLowerCase(); this.arrange(); }); bar.append(this.field); }
    this.note = element("span", note ?? "", "note grow");
    bar.append(this.note, button("Copy", "Copy the rows as text, with tabs between the cells", async () => {
      const done = await copy(this.text());
      this.note.textContent = done ? `${number(this.shown.length)} rows copied` : "the browser does not let pages copy";
    }));
    this.scroll = element("div", null, "table");
    this.scroll.style.maxHeight = most;
    this.scroll.tabIndex = 0;
    const table = element("table"), group = element("colgroup");
    this.head = element("tr");
    columns.forEach((column, place) => {
      const col = column.col = element("col");
      if (column.width) col.style.width = column.width;
      group.append(col);
      const cell = column.cell = element("th", null, column.is ?? ""), title = button(column.title, column.help ?? `Sort by ${column.title.toLowerCase()}`, () => this.sortBy(place));
      cell.append(title);
      this.head.append(cell);
    });
    const head = element("thead");
    head.append(this.head);
    this.body = element("tbody");
    table.append(group, head, this.body);
    this.scroll.append(table);
    parent.append(bar, this.scroll);
    this.draw = oncePerFrame(() => this.fill());
    this.scroll.addEventListener("scroll", this.draw);
    this.scroll.addEventListener("keydown", event => this.key(event));
    onLook(this.draw);
  }

  // Columns about which nothing is known are not shown.
  hide(title, isHidden) {
    const column = this.columns.find(one => one.title === title);
    column.isHidden = column.col.hidden = column.cell.hidden = isHidden;
  }

  set(rows, words) {
    this.rows = rows;
    this.words = words ?? "";
    this.picked = null;
    this.scroll.scrollTop = 0;
    this.arrange();
  }

  sortBy(place) {
    this.isUp = this.sort === place ? !this.isUp : this.columns[place].is !== "n";
    this.sort = place;
    this.arrange();
  }

  arrange() {
    const { needle, columns } = this, names = columns.filter(column => column.is === "name");
    this.shown = needle ? this.rows.filter(row => names.some(column => String(column.value(row)).toLowerCase().includes(needle))) : [...this.rows];
    const value = columns[this.sort].value, way = this.isUp ? 1 : -1;
    this.shown.sort((a, b) => { const one = value(a), other = value(b); return one === other ? 0 : (one < other ? -1 : 1) * way; });
    [...this.head.children].forEach((cell, place) => cell.setAttribute("aria-sort", place !== this.sort ? "none" : this.isUp ? "ascending" : "descending"));
    this.note.textContent = (needle ? `${number(this.shown.length)} of ${number(this.rows.length)} rows` : plural(this.rows.length, "row")) + (this.words ? `; ${this.words}` : "");
    this.fill();
  }

  fill() {
    const { scroll, body, columns, shown } = this;
    if (!scroll.isConnected || scroll.offsetParent === null) return;
    const high = Math.max(scroll.clientHeight, 400), first = Math.max(0, Math.floor(scroll.scrollTop / HIGH) - 8);
    const last = Math.min(shown.length, first + Math.ceil(high / HIGH) + 16);
    const space = rows => { const row = element("tr", null, "space"), cell = element("td"); cell.colSpan = columns.length; cell.style.height = rows * HIGH + "px"; row.append(cell); return row; };
    const list = [];
    if (first > 0) list.push(space(first));
    for (const row of shown.slice(first, last)) {
      const line = element("tr", null, row === this.picked ? "picked" : this.onPick ? "pick" : "");
      for (const column of columns) {
        if (column.isHidden) continue;
        const text = column.text ? column.text(row) : column.is === "n" ? number(column.value(row)) : String(column.value(row));
        const cell = element("td", null, (column.is ?? "") + (column.kind ? " " + column.kind(row) : ""));
        if (column.bar) { const bar = element("span", null, "share"); bar.style.width = Math.max(0, Math.min(1, column.bar(row))) * 100 + "%"; cell.append(bar); }
        cell.append(element("span", text, "text"));
        if (column.is === "name") cell.title = text;
        line.append(cell);
      }
      if (this.onPick) line.addEventListener("click", () => this.pick(row));
      list.push(line);
    }
    if (last < shown.length) list.push(space(shown.length - last));
    body.replaceChildren(...list);
  }

  pick(row) {
    this.picked = row;
    this.fill();
    this.onPick?.(row);
  }

  key(event) {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way || !this.onPick || !this.shown.length) return;
    event.preventDefault();
    event.stopPropagation();
    const place = Math.max(0, Math.min(this.shown.length - 1, this.shown.indexOf(this.picked) + way));
    const top = place * HIGH;
    if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
    if (top + 2 * HIGH > this.scroll.scrollTop + this.scroll.clientHeight) this.scroll.scrollTop = top + 2 * HIGH - this.scroll.clientHeight;
    this.pick(this.shown[place]);
  }

  text() {
    const { columns } = this;
    return tabbed([columns.map(column => column.title), ...this.shown.map(row => columns.map(column => column.is === "n" ? column.value(row) : column.text ? column.text(row) : column.value(row)))]);
  }
}
