// Code with counts: lines of source and instructions.

import { element, number } from "./dom.js";

// A line of code: places before the text, and the text, which may be long: it is scrolled, and nothing else moves.
export function codeLine(parts, kind) {
  const line = element("div", null, "line " + (kind ?? ""));
  for (const [text, part] of parts) line.append(element("span", text, part));
  return line;
}

export function codeBox(title, lines, note) {
  const box = element("div", null, "code"), inner = element("div", null, "lines");
  if (title) box.append(element("div", title, "codetitle"));
  inner.append(...lines);
  box.append(inner);
  if (note) box.append(element("p", note, "note"));
  return box;
}

// What a function of a profile looks like: { instructions: [address, count, text, place, source], file, lines: [number, count, text] }.
export function functionCode(code) {
  const list = element("div", null, "codes");
  if (!code || !code.instructions?.length) {
    list.append(element("p", "Its code is not known.", "note"));
    return list;
  }
  const { instructions, lines, file, is_cut } = code;
  if (lines?.length) {
    const most = lines.reduce((sum, line) => Math.max(sum, line[1] ?? 0), 0);
    list.append(codeBox(file, lines.map(([place, count, text]) =>
      codeLine([[count === null ? "" : number(count), "count"], [place, "place"], [text, "text"]], count !== null && count === most ? "hot" : count === null ? "never" : ""))));
  }
  const most = instructions.reduce((sum, line) => Math.max(sum, line[1]), 0), rows = [];
  for (const [address, count, text, place, source] of instructions) {
    if (place) rows.push(codeLine([["", "count"], [place, "source"], [source, "source text"]], "from"));
    rows.push(codeLine([[number(count), "count"], [address, "place"], [text, "text"]], count === most ? "hot" : ""));
  }
  list.append(codeBox("Instructions", rows, is_cut ? "Only the instructions that were executed most are listed." : ""));
  return list;
}
