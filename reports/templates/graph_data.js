// The graph's data as the explorer asks for it.

function readGraph(raw) {
  const { texts } = raw;
  const { nodes } = raw;
  const names = unpackNames(raw);
  const text = (column, at) => texts[nodes[column][at]];
  const count = names.length;
  const readers = Array.from({ length: count }, () => []);
  const reads = unpackReads(nodes.reads);
  const layouts = raw.layouts.map((layout) => unpackLayout(raw, layout));
  reads.forEach((sources, at) => sources.forEach((source) => readers[source].push(at)));

  const marks = new Map(raw.marks.map(([node, ...findings]) => [node, findings]));
  const findings = raw.findings.map(([id, severity, word, message]) => ({ id, severity, word, message }));
  const layered = new Map(raw.layered.map(([node, ...layers]) => [node, layers]));
  const stacks = raw.stacks.map((stack) => stack.map((frame) => {
    const [file, line, fn, code, mine] = raw.frames[frame];
    return { file: texts[file], line, fn: texts[fn], code: texts[code], mine: Boolean(mine) };
  }));
  const views = new Map(raw.views);
  const read = new Map();  // views are read when they are first shown
  let index = null;

  const graph = {
    findings, readers, reads, count,
    views: [...views.keys()],
    use: (view) => {
      if (!read.has(view)) read.set(view, readView(views.get(view), raw, layouts, count));
      Object.assign(graph, { view, ...read.get(view) });
    },
    node: (at) => ({
      name: names[at], op: text("op", at), role: raw.roles[nodes.role[at]], shape: text("shape", at),
      ranges: text("ranges", at), runs: nodes.runs ? text("runs", at) : "", module: text("module", at), type: text("type", at), findings: marks.get(at) ?? [],
      args: nodes.args ? raw.args[nodes.args[at]].map(([name, value, given]) => ({ name: texts[name], value: texts[value], given })) : [],
    }),
    stack: (at) => stacks[nodes.stack[at]],
    shape: (at) => text("shape", at),
    module: (at) => text("module", at),
    dtype: (at) => text("dtype", at),
    bytes: (at) => { const told = raw.bytes?.[nodes.bytes[at]]; return told?.[0] ? told : undefined; },
    step: (at) => (nodes.step && nodes.step[at] >= 0 ? nodes.step[at] : undefined),
    steps: (raw.steps ?? []).map((at) => texts[at]),
    times: new Map(raw.times),
    errors: new Map((raw.errors ?? []).map(([node, off]) => [node, off ?? Infinity])),
    told: raw.told ?? {},
    sources: (raw.sources ?? []).map(([file, stretches]) => ({ file: texts[file], stretches })),
    // Reports of before these choices do not have what they are made of.
    lacks: (choice) => (raw.lacks ? raw.lacks[choice] ?? "" : choice === "runs" && nodes.side ? "" : "not in this report"),
    index: () => (index ??= Array.from({ length: count }, (_, at) => (
      [`${names[at]} ${text("op", at)} ${text("module", at)} ${text("shape", at)}`, text("op", at), names[at]].map((each) => each.toLowerCase())))),
    name: (at) => names[at],
    nodeNamed: (name) => names.indexOf(name),
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
  };
  graph.use(graph.views[0]);
  return graph;
}

// One way to group the nodes.
function readView(rows, raw, layouts, count) {
  const { texts } = raw;
  const side = (at) => (raw.nodes.side ? raw.sides[raw.nodes.side[at]] : "");
  const boxes = unpackBoxes(raw, rows);
  const groups = rows.map(([label, path, type, ops, layout, , labels, subs, chips, undrawn, findings], group) => ({
    label: texts[label], path: texts[path], type: texts[type], ops, layout: layouts[layout], undrawn: fromSteps(undrawn), findings,
    boxes: boxes[group].map((box, at) => ({
      ...box, label: texts[labels[at]], sub: texts[subs[at]], chips: [],
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
