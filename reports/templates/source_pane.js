// The source beside the graph: a line lights the nodes that come from it, a chosen node scrolls to its line.

const lineKey = (file, line) => `${file}:${line}`;
const lastPart = (file) => file.split(/[\\/]/).pop();

class SourcePane {
  constructor(graph, chosen) {
    this.graph = graph;
    this.chosen = chosen;  // called with the line that was pressed
    this.element = make("div", { class: "source-pane", role: "region", "aria-label": "Source", hidden: "" });
    this.lines = null;
    this.keys = new Set(graph.sources.flatMap(({ file, stretches }) => (
      stretches.flatMap(([first, ...texts]) => texts.map((_, step) => lineKey(file, first + step))))));
  }

  get isEmpty() { return this.graph.sources.length === 0; }

  // Once: which line has which nodes, and the elements.
  build() {
    if (this.lines) return;
    const { graph } = this;
    this.lines = new Map();
    const nodes = new Map();
    for (let at = 0; at < graph.count; at++) {
      for (const { file, line } of graph.stack(at)) {
        const key = lineKey(file, line);
        if (!nodes.has(key)) nodes.set(key, []);
        if (nodes.get(key).at(-1) !== at) nodes.get(key).push(at);
      }
    }
    for (const { file, stretches } of graph.sources) {
      const code = make("div", { class: "code" });
      stretches.forEach(([first, ...texts], at) => {
        if (at) code.append(make("div", { class: "gap", "aria-hidden": "true" }, "⋯"));
        texts.forEach((text, step) => {
          const key = lineKey(file, first + step);
          const found = nodes.get(key) ?? [];
          const content = [make("span", { class: "number" }, String(first + step)), make("code", {}, text || " ")];
          const element = found.length > 0
            ? make("button", { type: "button", class: "line", "aria-pressed": "false", title: `${found.length} ${found.length === 1 ? "node" : "nodes"}`, onclick: () => this.chosen(key) }, ...content)
            : make("div", { class: "line" }, ...content);
          if (found.length > 0) this.lines.set(key, { element, nodes: found });
          code.append(element);
        });
      });
      this.element.append(make("h3", { title: file }, lastPart(file)), code);
    }
    walkByArrows([...this.element.querySelectorAll("button")], "ArrowUp", "ArrowDown");
  }

  show(visible) {
    if (visible) this.build();
    this.element.hidden = !visible;
  }

  has(key) { return this.keys.has(key); }

  nodesOf(key) { this.build(); return this.lines.get(key)?.nodes ?? []; }

  // Marks lines, the first strongest, and scrolls to it.
  mark(keys) {
    if (this.element.hidden) return;
    for (const { element } of this.lines.values()) {
      element.classList.remove("current", "around");
      element.setAttribute("aria-pressed", "false");
    }
    keys.forEach((key, at) => this.lines.get(key)?.element.classList.add(at ? "around" : "current"));
    const first = this.lines.get(keys[0])?.element;
    if (!first) return;
    first.setAttribute("aria-pressed", "true");
    const pane = this.element;
    const [top, bottom] = [first.offsetTop, first.offsetTop + first.offsetHeight];
    if (top < pane.scrollTop || bottom > pane.scrollTop + pane.clientHeight) pane.scrollTop = top - pane.clientHeight / 3;
  }

  // The lines of a node that the pane has, the innermost first.
  linesOf(node) {
    return this.graph.stack(node).map(({ file, line }) => lineKey(file, line)).filter((key) => this.has(key)).reverse();
  }
}
