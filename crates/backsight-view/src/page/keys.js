// What keys do.

import { button, element } from "./dom.js";

const HELP = [["Timeline", [["wheel, W S, + \u2212", "zoom at the pointer"], ["drag, A D, \u2190 \u2192, Shift and wheel", "move"], ["PageUp PageDown, Alt and wheel", "up and down"], ["double click", "all of a call; closer where there is none"],
  ["0, Home", "all of the capture"], ["F", "the selection, or the call that was clicked"], ["drag in the ruler, Shift and drag", "select"], ["M", "select the call that was clicked"], ["Escape", "select nothing"], ["click on a lane's name", "close or open the lane"]]],
["Moment", [[". ,", "on and back by an instruction"], ["L Shift+L", "on and back by a line"], ["J K", "on and back by a line, over calls"], ["O Shift+O", "out of the function: behind its call, back to it"],
  ["N Shift+N", "next call of the function, the one before"], ["E Shift+E", "next exception, the one before"], ["B", "bookmark"]]],
["Elsewhere", [["/", "search"], ["?", "this help"]]]];

export function showHelp() {
  const dialog = element("dialog");
  for (const [title, keys] of HELP) {
    const list = element("div", null, "keys");
    for (const [key, words] of keys) {
      const cell = element("div");
      cell.append(element("kbd", key));
      list.append(cell, element("div", words));
    }
    dialog.append(element("h2", title), list);
  }
  const bar = element("div", null, "bar");
  bar.append(button("Close", "Escape", () => dialog.close()));
  dialog.append(bar);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// Keys mean something wherever nobody types.
export function listenToKeys({ timeline, moment, search, bookmark }) {
  addEventListener("keydown", event => {
    if (event.target.closest?.("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
    const isBack = event.shiftKey, key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const act = {
      ".": () => moment.step("instruction", false), ",": () => moment.step("instruction", true), l: () => moment.step("into", isBack), j: () => moment.step("over", false), k: () => moment.step("over", true),
      o: () => moment.step("out", isBack), n: () => moment.jump("function", isBack), e: () => moment.jump("exception", isBack), b: bookmark, "/": search, "?": showHelp,
    }[key];
    if (act) { event.preventDefault(); act(); } else if (!event.target.closest?.(".table, .tabs")) timeline.key(event);
  });
}
