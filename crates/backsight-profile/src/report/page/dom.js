// What all parts of a page are made of. Text of captures is only ever set as text.

export const byId = id => document.getElementById(id);

export function element(tag, text, kind) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

export function button(text, title, act) {
  const made = element("button", text);
  made.type = "button";
  if (title) made.title = title;
  made.addEventListener("click", act);
  return made;
}

export function field(placeholder, act) {
  const made = element("input");
  made.type = "search";
  made.placeholder = placeholder;
  made.setAttribute("aria-label", placeholder);
  made.spellcheck = false;
  made.addEventListener("input", () => act(made.value.trim()));
  return made;
}

export function choice(label, options, act) {
  const around = element("label", label + " ", "choice"), select = element("select");
  for (const [value, text] of options) {
    const option = element("option", text);
    option.value = value;
    select.append(option);
  }
  select.addEventListener("change", () => act(select.value));
  around.append(select);
  around.select = select;
  return around;
}

export const number = n => Number(n).toLocaleString("en");
export const percent = (part, whole) => (100 * part / Math.max(1, whole)).toFixed(2) + " %";
export const plural = (n, thing) => `${number(n)} ${thing}${n === 1 ? "" : /(ch|sh|ss)$/.test(thing) ? "es" : "s"}`;

// 1234567 as 1.23 M.
export function short(n) {
  const size = Math.abs(n);
  for (const [unit, name] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return (n / unit).toFixed(size / unit < 10 ? 2 : size / unit < 100 ? 1 : 0) + " " + name;
  }
  return String(Math.round(n * 100) / 100);
}

// Colours of the page, as canvases need them.
const colours = new Map();
const probe = element("span");
export function colour(name) {
  if (!colours.has(name)) {
    if (!probe.isConnected) { probe.hidden = true; document.body.append(probe); }
    probe.style.color = `var(${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  return colours.get(name);
}

export const isDark = () => {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const redraws = new Set();
export function onLook(draw) { redraws.add(draw); }
export function lookAgain() { colours.clear(); for (const draw of redraws) draw(); }
export function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
  lookAgain();
}
addEventListener("resize", () => lookAgain());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => lookAgain());

// Many reasons to draw within one frame are one.
export function oncePerFrame(draw) {
  let wanted = false;
  return () => {
    if (wanted) return;
    wanted = true;
    requestAnimationFrame(() => { wanted = false; draw(); });
  };
}

// A row of buttons of which one is chosen, and what belongs to each.
export function tabs(parent, list, onOpen) {
  const bar = element("div", null, "tabs"), bodies = new Map();
  bar.setAttribute("role", "tablist");
  parent.append(bar);
  let current = null;
  const open = id => {
    if (!bodies.has(id)) return;
    current = id;
    for (const [name, [tab, body]] of bodies) {
      tab.setAttribute("aria-selected", name === id);
      body.hidden = name !== id;
    }
    onOpen?.(id);
  };
  for (const [id, text] of list) {
    const tab = button(text, null, () => open(id)), body = element("section");
    tab.setAttribute("role", "tab");
    tab.dataset.tab = id;
    body.setAttribute("role", "tabpanel");
    body.dataset.body = id;
    body.hidden = true;
    bar.append(tab);
    parent.append(body);
    bodies.set(id, [tab, body]);
  }
  return {
    open, bar, body: id => bodies.get(id)[1], current: () => current,
    show: (id, wanted) => { bodies.get(id)[0].hidden = !wanted; if (!wanted && current === id) open(list[0][0]); },
  };
}

// Words beside the pointer.
const tip = element("div", null, "tip");
export function showTip(lines, event) {
  tip.textContent = "";
  lines.forEach((line, place) => tip.append(element("div", line, place ? "dim" : "")));
  if (!tip.isConnected) document.body.append(tip);
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 6)) + "px";
  tip.style.top = (event.clientY + 18 + height > innerHeight ? Math.max(4, event.clientY - height - 10) : event.clientY + 18) + "px";
}
export function hideTip() { tip.hidden = true; }
