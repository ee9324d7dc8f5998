// Search: ops by their name first, then by its beginning, then all that has the words; modules last.

const MOST_RESULTS = 30;
const MOST_MODULES = 5;

function searchGraph(graph, typed) {
  const wanted = typed.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return { nodes: [], groups: [], more: false };
  const ranks = [[], [], []];
  graph.index().forEach(([all, op, name], at) => {
    if (!wanted.every((word) => all.includes(word))) return;
    const [first] = wanted;
    const has = (test) => test(op) || test(op.split(".").at(-2) ?? op) || test(name);
    ranks[has((text) => text === first) ? 0 : has((text) => text.startsWith(first)) ? 1 : 2].push(at);
  });
  const nodes = ranks.flat();
  const groups = [];
  for (let at = 1; at < graph.groups.length && groups.length < MOST_MODULES; at++) {
    const words = `${graph.groups[at].label} ${graph.groups[at].path} ${graph.groups[at].type}`.toLowerCase();
    if (wanted.every((word) => words.includes(word))) groups.push(at);
  }
  return { nodes: nodes.slice(0, MOST_RESULTS), groups, more: nodes.length > MOST_RESULTS };
}

class Search {
  constructor(graph, reveal) {
    Object.assign(this, { graph, reveal });
    this.field = make("input", { type: "search", placeholder: "Search op, node, module, shape", "aria-label": "Search the graph" });
    this.results = make("ul", { class: "results", "aria-label": "Search results" });
    this.field.addEventListener("input", () => timed("explorer-search", () => this.find()));
    this.field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.results.querySelector("button")?.click();
      if (event.key === "Escape") { this.field.value = ""; this.find(); }
    });
  }

  find() {
    const { graph } = this;
    const found = searchGraph(graph, this.field.value);
    const entry = (text, target) => make("li", {}, linkTo(text, () => this.reveal(target)));
    const entries = found.nodes.map((node) => entry(`${graph.name(node)}  ${graph.module(node)}`, { node }));
    if (found.more) entries.push(make("li", {}, "and more: type on"));
    entries.push(...found.groups.map((group) => entry(`${graph.groups[group].path || graph.groups[group].label} (module)`, { group })));
    if (this.field.value.trim() && entries.length === 0) entries.push(make("li", {}, "nothing found"));
    this.results.replaceChildren(...entries);
  }
}
