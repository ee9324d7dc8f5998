// Shapes on edges: what goes from one box of a level to another.

const edgeValues = new WeakMap();  // of a group: "tail,head" -> the nodes whose values go along

function valuesAlong(graph, group) {
  const known = edgeValues.get(group);
  if (known) return known;
  const boxOf = new Map();
  group.boxes.forEach((box, at) => (box.node !== null ? [box.node] : graph.inside(box.group)).forEach((node) => boxOf.set(node, at)));
  const found = new Map();
  for (const [node, head] of boxOf) {
    for (const source of graph.reads[node]) {
      const tail = boxOf.get(source);
      if (tail === undefined || tail === head) continue;
      const key = `${tail},${head}`;
      if (!found.has(key)) found.set(key, new Set());
      found.get(key).add(source);
    }
  }
  edgeValues.set(group, found);
  return found;
}

// The texts of a placed level, each value once however many arrows it has.  Beneath them is room for words above boxes.
function shapeTexts(graph, group, level, left, top) {
  const along = valuesAlong(graph, group);
  const said = new Set();
  const texts = [];
  level.edges.forEach(([tail, head], at) => {
    const told = [...along.get(`${tail},${head}`) ?? []];
    const fresh = told.filter((node) => !said.has(node) && graph.shape(node));
    if (fresh.length === 0) return;
    fresh.forEach((node) => said.add(node));
    const more = fresh.length > 1 ? ` +${fresh.length - 1}` : "";
    const [x, y] = middleOf(level.curves[at]);
    const text = draw("text", { class: "shape", x: x + left, y: y + top - 3, "aria-hidden": "true" }, graph.shape(fresh[0]) + more);
    text.append(draw("title", {}, fresh.map((node) => `${graph.name(node)}: ${graph.shape(node)}`).join("\n")));
    texts.push(text);
  });
  return texts;
}

// The middle of the middle one of the Bézier curves that an edge is made of.
function middleOf(curve) {
  const pieces = (curve.length / 2 - 1) / 3;
  const start = 6 * Math.floor((pieces - 1) / 2);
  const mix = (at) => (curve[at] + 3 * curve[at + 2] + 3 * curve[at + 4] + curve[at + 6]) / 8;
  return [mix(start), mix(start + 1)];
}
