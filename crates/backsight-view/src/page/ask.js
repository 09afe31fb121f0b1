// Questions to the server that the page is from.

// Whatever is asked for a second time of one slot takes the place of what was asked before.
const open = new Map();

export async function ask(question, values = {}, slot = "") {
  open.get(slot)?.abort();
  const controller = new AbortController(), query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) if (value !== undefined && value !== null) query.set(name, value);
  if (slot) { open.set(slot, controller); query.set("slot", slot); }
  try {
    const response = await fetch(`api/${question}?${query}`, { signal: controller.signal });
    if (question === "export" && response.ok) return { blob: await response.blob(), name: /filename="([^"]*)"/.exec(response.headers.get("Content-Disposition"))?.[1] ?? "window" };
    const answer = await response.json();
    if (response.ok) return answer;
    throw answer.given_up ? new DOMException("given up", "AbortError") : new Error(answer.error);
  } finally {
    if (open.get(slot) === controller) open.delete(slot);
  }
}

// Says how far the server is, for as long as the page is open.
export function follow(act, lost) {
  const events = new EventSource("api/open");
  events.onmessage = event => act(JSON.parse(event.data));
  events.onerror = () => { if (events.readyState === EventSource.CLOSED || events.readyState === EventSource.CONNECTING) lost(); };
}
