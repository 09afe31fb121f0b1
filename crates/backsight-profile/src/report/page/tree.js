// Trees of calls. Programs go as deep as they like, so nothing here calls itself.

// From lists of name, parent, own cost and calls; each node comes after its parent.
export function callTree({ names, nodes }) {
  const all = nodes.map(([name, parent, own, calls]) => ({ name: names[name], up: null, parent, own, calls, total: own, children: [] }));
  for (let place = all.length - 1; place >= 0; place--) {
    const node = all[place];
    if (node.parent === null) continue;
    node.up = all[node.parent];
    node.up.total += node.total;
    node.up.children.push(node);
  }
  const root = { name: "all", up: null, own: 0, calls: 0, total: 0, children: all.filter(node => node.up === null) };
  for (const child of root.children) { child.up = root; root.total += child.total; }
  const byCost = (a, b) => b.total - a.total;
  root.children.sort(byCost);
  for (const node of all) node.children.sort(byCost);
  return root;
}

// All nodes, callers before what they call.
export function* nodesOf(root) {
  const open = [root];
  while (open.length) {
    const node = open.pop();
    yield node;
    for (const child of node.children) open.push(child);
  }
}

// Chains of callers, from the function that did it upwards. Children are made when they are asked for.
class Inverted {
  constructor(name, parts, up) {
    Object.assign(this, { name, parts, up, own: 0, calls: 0, total: 0 });
    for (const [, cost, calls] of parts) { this.total += cost; this.calls += calls; }
    this.made = null;
  }
  get children() {
    if (!this.made) {
      const callers = new Map();
      for (const [node, cost, calls] of this.parts) {
        const caller = node.up;
        if (!caller || !caller.up) { this.own += cost; continue; }
        if (!callers.has(caller.name)) callers.set(caller.name, []);
        callers.get(caller.name).push([caller, cost, calls]);
      }
      this.made = [...callers].map(([name, parts]) => new Inverted(name, parts, this)).sort((a, b) => b.total - a.total);
    }
    return this.made;
  }
}

export function bottomUp(root) {
  const functions = new Map();
  for (const node of nodesOf(root)) {
    if (!node.up || !node.own) continue;
    if (!functions.has(node.name)) functions.set(node.name, []);
    functions.get(node.name).push([node, node.own, node.calls]);
  }
  const top = new Inverted("all", [], null);
  top.made = [...functions].map(([name, parts]) => new Inverted(name, parts, top)).sort((a, b) => b.total - a.total);
  top.total = top.made.reduce((sum, node) => sum + node.total, 0);
  return top;
}

// The outermost calls of a function: those that are not within another one of it.
function outermost(root, name) {
  const found = [], open = [root];
  while (open.length) {
    const node = open.pop();
    if (node.up && node.name === name) found.push(node);
    else for (const child of node.children) open.push(child);
  }
  return found;
}

// A function in the middle: who called it above, and what it called below.
export function sandwich(root, name) {
  const found = outermost(root, name);
  const callers = new Inverted(name, found.map(node => [node, node.total, node.calls]), null);
  const callees = { name, up: null, own: 0, calls: 0, total: 0, children: [] };
  const open = [[callees, found]];
  while (open.length) {
    const [into, parts] = open.pop(), names = new Map();
    for (const node of parts) {
      into.own += node.own;
      into.calls += node.calls;
      into.total += node.total;
      for (const child of node.children) {
        if (!names.has(child.name)) names.set(child.name, []);
        names.get(child.name).push(child);
      }
    }
    for (const [child, list] of names) {
      const made = { name: child, up: into, own: 0, calls: 0, total: 0, children: [] };
      into.children.push(made);
      open.push([made, list]);
    }
  }
  for (const node of nodesOf(callees)) node.children.sort((a, b) => b.total - a.total);
  return { callers, callees };
}

// Who called a function and what it called: names, cost and calls.
export function relations(root, name) {
  const callers = new Map(), callees = new Map(), around = new Map();
  // What a call within another one of the same pair of functions costs is counted with that one.
  const add = (map, key, cost, calls, isInner) => { const known = map.get(key) ?? [0, 0]; map.set(key, [known[0] + (isInner ? 0 : cost), known[1] + calls]); };
  const open = [[root, false]];
  while (open.length) {
    const [node, isLeft] = open.pop(), isCalled = node.up?.up && node.name === name, isCaller = node.up?.up && node.up.name === name;
    if (isCalled || isCaller) {
      const pair = node.up.name + "\n" + node.name, depth = around.get(pair) ?? 0;
      around.set(pair, depth + (isLeft ? -1 : 1));
      if (!isLeft && isCalled) add(callers, node.up.name, node.total, node.calls, depth > 0);
      if (!isLeft && isCaller) add(callees, node.name, node.total, node.calls, depth > 0);
    }
    if (isLeft) continue;
    open.push([node, true]);
    for (const child of node.children) open.push([child, false]);
  }
  const list = map => [...map].map(([name, [total, calls]]) => ({ name, total, calls })).sort((a, b) => b.total - a.total);
  return { callers: list(callers), callees: list(callees) };
}
