// The panel beside the graph: all that is known of what is chosen.

const MOST_LINKS = 24;
const MOST_LAYERS = 40;
const SIDES = { engine: "engines", torch: "PyTorch", gone: "nowhere (gone in lowering)" };

function fill(panel, ...parts) {
  panel.replaceChildren(...parts.filter((part) => part !== null));
}

function showNode(panel, graph, at, reveal, line) {
  const node = graph.node(at);
  const rows = make("dl");
  const row = (name, ...content) => { if (content[0]) rows.append(make("dt", {}, name), make("dd", {}, ...content)); };
  row("op", make("code", {}, ...breakable(node.op)));
  row("arguments", argumentList(node.args));
  row("value", node.shape && make("code", {}, node.shape));
  row("ranges", node.ranges && make("code", {}, node.ranges));
  row("runs in", node.runs);
  row("computes in", node.args && graph.role(at) === "op" && !graph.lacks("precision") && graph.dtype(at));
  row("memory of its output", graph.bytes(at)?.[1]);
  row("time", graph.times.has(at) && ms(graph.times.get(at)));
  row("difference from PyTorch", graph.errors.has(at) && difference(graph.errors.get(at)));
  row("module", node.module && moduleLink(graph, node, reveal, graph.home[at]));
  row("reads", nodeLinks(graph, graph.reads[at], reveal));
  row("read by", nodeLinks(graph, graph.readers[at], reveal));
  row("layers", layerList(graph, graph.layersOf(at)));
  fill(panel, make("h3", {}, make("code", {}, ...breakable(node.name))), findingLinks(graph, node.findings), rows, ...stackView(graph.stack(at), line));
}

function showGroup(panel, graph, at, isOpen, reveal, toggle) {
  const group = graph.groups[at];
  const rows = make("dl");
  const row = (name, content) => { if (content) rows.append(make("dt", {}, name), make("dd", {}, content)); };
  row("module", group.path);
  row("class", group.type);
  row("ops", group.ops.toLocaleString("en"));
  row("runs in", Object.entries(group.runs).filter(([, number]) => number > 0)
    .map(([side, number]) => `${SIDES[side]}: ${number.toLocaleString("en")}`).join(", "));
  row("layers", layerList(graph, [...new Set(graph.inside(at).flatMap(graph.layersOf))].sort((a, b) => a - b)));
  const parts = [make("h3", {}, at === 0 ? "The whole graph" : group.label), findingLinks(graph, group.findings), rows];
  if (at !== 0) {
    parts.push(make("p", {}, make("button", { type: "button", onclick: () => toggle(at) }, isOpen ? "Close" : "Open")));
  }
  for (const [role, word] of [["shape", "Shape computations"], ["check", "Asserts, no-ops, elements"], ["weight", "Weights"]]) {
    const nodes = group.undrawn.filter((node) => graph.role(node) === role);
    if (nodes.length === 0) continue;
    parts.push(make("details", {}, make("summary", {}, `${word}, not drawn: ${nodes.length}`), nodeLinks(graph, nodes, reveal, 200)));
  }
  fill(panel, ...parts);
}

// Arguments that the call leaves at their defaults are paler.
function argumentList(args) {
  if (args.length === 0) return null;
  const list = make("ul", { class: "plain" });
  for (const { name, value, given } of args) {
    list.append(make("li", given ? {} : { class: "foreign", title: "the default" }, make("code", {}, `${name} = ${value}`), given ? "" : " (default)"));
  }
  return list;
}

// What comes from one line of source.
function showLineNodes(panel, graph, key, nodes, reveal) {
  const drawn = nodes.filter((node) => ["op", "input", "output"].includes(graph.role(node)));
  const others = nodes.filter((node) => !drawn.includes(node));
  const folded = others.length === 0 ? null
    : make("details", {}, make("summary", {}, `Not drawn: ${others.length}`), nodeLinks(graph, others, reveal, 200));
  fill(panel, make("h3", {}, make("code", {}, lastPart(key))),
    make("p", {}, `${nodes.length} ${nodes.length === 1 ? "node comes" : "nodes come"} from this line.`), nodeLinks(graph, drawn, reveal, 200), folded);
}

function moduleLink(graph, node, reveal, home) {
  return make("span", {}, linkTo(node.module, () => reveal({ group: home })), node.type ? ` ${node.type}` : "");
}

function nodeLinks(graph, nodes, reveal, most = MOST_LINKS) {
  if (nodes.length === 0) return null;
  const list = make("ul");
  for (const node of nodes.slice(0, most)) {
    list.append(make("li", {}, linkTo(graph.name(node), () => reveal({ node })), graph.role(node) === "weight" ? " (weight)" : ""));
  }
  if (nodes.length > most) list.append(make("li", {}, `and ${nodes.length - most} more`));
  return list;
}

// Layers of built engines; those of one op stand open.
function layerList(graph, layers) {
  if (layers.length === 0) return null;
  const list = make("ul");
  for (const at of layers.slice(0, MOST_LAYERS)) {
    const { place, name, rest } = graph.layer(at);
    list.append(make("li", {}, `${place}: `, make("code", {}, name), ` (${rest})`));
  }
  if (layers.length > MOST_LAYERS) list.append(make("li", {}, `and ${layers.length - MOST_LAYERS} more`));
  const folded = make("details", {}, make("summary", {}, layers.length === 1 ? "1 layer" : `${layers.length} layers`), list);
  folded.open = layers.length <= 3;
  return folded;
}

function findingLinks(graph, found) {
  if (found.length === 0) return null;
  const list = make("ul");
  for (const at of found) {
    const { id, word, message } = graph.findings[at];
    list.append(make("li", {}, make("a", { href: `#${id}` }, id), ` ${word}: `, ...breakable(message)));
  }
  return list;
}

// The user's frames first, innermost on top; those of libraries are folded.
function stackView(stack, line) {
  const frames = [...stack].reverse();
  const place = (frame) => {
    const key = lineKey(frame.file, frame.line);
    return line.has(key) ? linkTo(key, () => line.show(key)) : make("code", {}, key);
  };
  const told = (frame) => make("div", frame.mine ? {} : { class: "foreign" }, place(frame), frame.fn ? ` in ${frame.fn}` : "",
    frame.code ? make("pre", {}, make("code", {}, frame.code)) : "");
  const mine = frames.filter((frame) => frame.mine);
  const foreign = frames.filter((frame) => !frame.mine);
  const parts = [];
  if (mine.length > 0) parts.push(make("h4", {}, "Source"), ...mine.map(told));
  if (foreign.length > 0) {
    const folded = make("details", {}, make("summary", {}, `Frames in libraries: ${foreign.length}`), ...foreign.map(told));
    if (mine.length === 0) folded.open = true;
    parts.push(folded);
  }
  return parts;
}
