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

  const groups = raw.groups.map(([label, path, type, ops, layout, boxes, labels, subs, chips, undrawn, findings]) => ({
    label: texts[label], path: texts[path], type: texts[type], ops, layout: raw.layouts[layout], undrawn: fromSteps(undrawn), findings,
    boxes: fromSteps(boxes).map((item, at) => ({
      node: item >= 0 ? item : null, group: item < 0 ? -1 - item : null, label: texts[labels[at]], sub: texts[subs[at]], chips: [],
    })),
    chips,
  }));
  const home = new Array(count).fill(0);  // the group that a node stands in
  groups.forEach((group, at) => {
    group.parent = group.parent ?? null;
    group.chips.forEach(([box, ...sources]) => { group.boxes[box].chips = sources; });
    group.undrawn.forEach((node) => { home[node] = at; });
    group.boxes.forEach((box) => {
      if (box.node !== null) home[box.node] = at; else groups[box.group].parent = at;
    });
  });
  const marks = new Map(raw.marks.map(([node, ...findings]) => [node, findings]));
  const findings = raw.findings.map(([id, severity, word, message]) => ({ id, severity, word, message }));
  let index = null;

  return {
    groups, findings, readers, reads, count, home,
    node: (at) => ({
      name: text("name", at), op: text("op", at), role: raw.roles[nodes.role[at]], shape: text("shape", at),
      ranges: text("ranges", at), module: text("module", at), type: text("type", at), findings: marks.get(at) ?? [],
      stack: raw.stacks[nodes.stack[at]].map((frame) => {
        const [file, line, fn, code, mine] = raw.frames[frame];
        return { file: texts[file], line, fn: texts[fn], code: texts[code], mine: Boolean(mine) };
      }),
    }),
    name: (at) => text("name", at),
    role: (at) => raw.roles[nodes.role[at]],
    findingsOf: (box) => (box.group !== null ? groups[box.group].findings : marks.get(box.node) ?? []),
    worst: (found) => ["error", "warning", "info"].find((level) => found.some((at) => findings[at].severity === level)) ?? "",
    above: (group) => {  // the group and those around it, innermost first
      const way = [];
      for (let at = group; at !== null; at = groups[at].parent) way.push(at);
      return way;
    },
    placesOf: (finding) => ({
      nodes: [...marks].filter(([, found]) => found.includes(finding)).map(([node]) => node),
      group: groups.findLastIndex((group) => group.findings.includes(finding)),
    }),
    search: (words, most) => {
      index ??= Array.from({ length: count }, (_, at) => (
        `${text("name", at)} ${text("op", at)} ${text("module", at)} ${text("shape", at)}`.toLowerCase()));
      const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
      const found = { groups: [], nodes: [], more: false };
      if (wanted.length === 0) return found;
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
}
