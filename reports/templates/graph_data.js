// The graph's data as the explorer asks for it.

// Numbers are kept as steps from the one before.
function fromSteps(steps) {
  let sum = 0;
  return steps.map((step) => { sum += step; return sum; });
}

function readGraph(raw) {
  const { texts } = raw;
  const nodes = { ...raw.nodes, name: fromSteps(raw.nodes.name) };
  const text = (column, at) => texts[nodes[column][at]];
  const count = nodes.name.length;
  const readers = Array.from({ length: count }, () => []);
  const reads = nodes.reads.map((steps, at) => steps.map((step) => at - step));
  reads.forEach((sources, at) => sources.forEach((source) => readers[source].push(at)));

  const marks = new Map(raw.marks.map(([node, ...findings]) => [node, findings]));
  const findings = raw.findings.map(([id, severity, word, message]) => ({ id, severity, word, message }));
  const layered = new Map(raw.layered.map(([node, ...layers]) => [node, layers]));
  const views = new Map(raw.views);
  const read = new Map();  // views are read when they are first shown
  let index = null;

  const graph = {
    findings, readers, reads, count,
    views: [...views.keys()],
    use: (view) => {
      if (!read.has(view)) read.set(view, readView(views.get(view), raw, count));
      Object.assign(graph, { view, ...read.get(view) });
    },
    node: (at) => ({
      name: text("name", at), op: text("op", at), role: raw.roles[nodes.role[at]], shape: text("shape", at),
      ranges: text("ranges", at), runs: nodes.runs ? text("runs", at) : "", module: text("module", at), type: text("type", at), findings: marks.get(at) ?? [],
      stack: raw.stacks[nodes.stack[at]].map((frame) => {
        const [file, line, fn, code, mine] = raw.frames[frame];
        return { file: texts[file], line, fn: texts[fn], code: texts[code], mine: Boolean(mine) };
      }),
    }),
    name: (at) => text("name", at),
    nodeNamed: (name) => nodes.name.findIndex((at) => texts[at] === name),
    side: (at) => (nodes.side ? raw.sides[nodes.side[at]] : ""),
    layersOf: (at) => layered.get(at) ?? [],
    layer: (at) => { const [place, name, rest] = raw.layers[at].map((each) => texts[each]); return { place, name, rest }; },
    groupNamed: (name) => graph.groups.findIndex((group, at) => at > 0 && (group.label === name || group.path === name)),
    inside: (group) => {  // every node in a group, however deep
      const found = [];
      const walk = (at) => graph.groups[at].boxes.forEach((box) => { if (box.node !== null) found.push(box.node); else walk(box.group); });
      walk(group);
      return found;
    },
    role: (at) => raw.roles[nodes.role[at]],
    findingsOf: (box) => (box.group !== null ? graph.groups[box.group].findings : marks.get(box.node) ?? []),
    worst: (found) => ["error", "warning", "info"].find((level) => found.some((at) => findings[at].severity === level)) ?? "",
    above: (group) => {  // the group and those around it, innermost first
      const way = [];
      for (let at = group; at !== null; at = graph.groups[at].parent) way.push(at);
      return way;
    },
    placesOf: (finding) => ({
      nodes: [...marks].filter(([, found]) => found.includes(finding)).map(([node]) => node),
      group: graph.groups.findLastIndex((group) => group.findings.includes(finding)),
    }),
    search: (words, most) => {
      index ??= Array.from({ length: count }, (_, at) => (
        `${text("name", at)} ${text("op", at)} ${text("module", at)} ${text("shape", at)}`.toLowerCase()));
      const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
      const found = { groups: [], nodes: [], more: false };
      if (wanted.length === 0) return found;
      const { groups } = graph;
      for (let at = 1; at < groups.length && found.groups.length < 5; at++) {
        const words = `${groups[at].label} ${groups[at].path} ${groups[at].type}`.toLowerCase();
        if (wanted.every((word) => words.includes(word))) found.groups.push(at);
      }
      for (let at = 0; at < count; at++) {
        if (!wanted.every((word) => index[at].includes(word))) continue;
        if (found.nodes.length === most) { found.more = true; break; }
        found.nodes.push(at);
      }
      return found;
    },
  };
  graph.use(graph.views[0]);
  return graph;
}

// One way to group the nodes.
function readView(rows, raw, count) {
  const { texts } = raw;
  const side = (at) => (raw.nodes.side ? raw.sides[raw.nodes.side[at]] : "");
  const groups = rows.map(([label, path, type, ops, layout, boxes, labels, subs, chips, undrawn, findings]) => ({
    label: texts[label], path: texts[path], type: texts[type], ops, layout: raw.layouts[layout], undrawn: fromSteps(undrawn), findings,
    boxes: fromSteps(boxes).map((item, at) => ({
      node: item >= 0 ? item : null, group: item < 0 ? -1 - item : null, label: texts[labels[at]], sub: texts[subs[at]], chips: [],
    })),
    chips, parent: null, runs: { engine: 0, torch: 0, gone: 0 },
  }));
  const home = new Array(count).fill(0);  // the group that a node stands in
  groups.forEach((group, at) => {
    group.chips.forEach(([box, ...sources]) => { group.boxes[box].chips = sources; });
    group.undrawn.forEach((node) => { home[node] = at; });
    group.boxes.forEach((box) => {
      if (box.node !== null) home[box.node] = at; else groups[box.group].parent = at;
    });
  });
  for (let at = groups.length - 1; at >= 0; at--) {  // the groups inside a group come after it
    const { runs } = groups[at];
    for (const box of groups[at].boxes) {
      if (box.node === null) for (const each of Object.keys(runs)) runs[each] += groups[box.group].runs[each];
      else if (side(box.node)) runs[side(box.node)] += 1;
    }
  }
  return { groups, home };
}
