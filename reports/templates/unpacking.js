// The packed columns of the graph's data; data of before there was a form write them plainly.

// Numbers are kept as steps from the one before.
function fromSteps(steps) {
  let sum = 0;
  return steps.map((step) => { sum += step; return sum; });
}

// A name that is not told is the next one of the op: add, add_1.
function unpackNames(raw) {
  if (!raw.form) return fromSteps(raw.nodes.name).map((at) => raw.texts[at]);
  const counts = new Map();
  let next = 0;
  return raw.nodes.name.map((told, at) => {
    const parts = raw.texts[raw.nodes.op[at]].split(".");
    const base = parts.at(-2 * (parts.length > 2) || -1);
    const count = counts.get(base) ?? 0;
    counts.set(base, count + 1);
    return told ? raw.names[next++] : count ? `${base}_${count}` : base;
  });
}

// null is the first node that nobody has read yet.
function unpackReads(rows) {
  const read = new Set();
  let unread = 0;
  return rows.map((steps, at) => steps.map((step) => {
    const source = step === null ? unread : at - step;
    read.add(source);
    while (read.has(unread)) unread += 1;
    return source;
  }));
}

// Boxes of the groups of a view, as nodes or groups.
function unpackBoxes(raw, rows) {
  if (!raw.form) return rows.map((row) => fromSteps(row[5]).map((item) => (item < 0 ? { node: null, group: -1 - item } : { node: item, group: null })));
  let next = 1;
  return rows.map((row) => {
    let last = -1;
    return row[5].map((step) => {
      if (step === 0) return { node: null, group: next++ };
      last += step;
      return { node: last, group: null };
    });
  });
}

// Points of an edge follow each other, from the middle of its first box on.
function unpackLayout(raw, [width, height, boxes, edges]) {
  if (!raw.form) return [width, height, boxes, edges];
  return [width, height, boxes, edges.map(([tail, head, ...steps]) => {
    const here = [Math.round(boxes[4 * tail]), Math.round(boxes[4 * tail + 1])];
    return [tail, head, ...steps.map((step, at) => (here[at % 2] += step))];
  })];
}
