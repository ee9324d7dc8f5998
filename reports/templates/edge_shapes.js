// Shapes on edges: what goes from one box of a level to another, where there is room for it.

const SHAPE_CHAR = 5.85;  // pixels of a character, at the size of these texts
const SHAPE_HEIGHT = 10;
const WORDS_HEIGHT = 12;  // of what stands above a box
const STOPS = [0.5, 0.4, 0.3, 0.25, 0.6, 0.7, 0.8];  // along an edge, the best place first

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

// The texts of a placed level, each value once however many arrows it has, the largest first: none lies over a box, the
// words above it, or another text.  What has no room as a whole is a mark that tells it to a pointer; `left` counts it.
function shapeTexts(graph, group, level, left, top, hasWords, count) {
  const along = valuesAlong(graph, group);
  const said = new Set();
  const wanted = [];
  level.edges.forEach(([tail, head], at) => {
    const fresh = [...along.get(`${tail},${head}`) ?? []].filter((node) => !said.has(node) && graph.shape(node));
    if (fresh.length === 0) return;
    fresh.forEach((node) => said.add(node));
    wanted.push({ fresh, curve: level.curves[at], bytes: Math.max(...fresh.map((node) => graph.bytes(node)?.[0] ?? 0)) });
  });
  wanted.sort((a, b) => b.bytes - a.bytes);
  const taken = level.boxes.map(({ x, y, width, height }, at) => (
    [x - width / 2 - 2, y - height / 2 - (hasWords(group.boxes[at]) ? WORDS_HEIGHT : 1), x + width / 2 + 2, y + height / 2 + 1]));
  const roomFor = (curve, words) => {
    const half = words.length * SHAPE_CHAR / 2;
    for (const stop of STOPS) {
      const [x, y] = pointOf(curve, stop);
      const [l, t, r, b] = [x - half, y - SHAPE_HEIGHT / 2, x + half, y + SHAPE_HEIGHT / 2];
      if (l < 0 || r > level.width || taken.some((other) => l < other[2] && r > other[0] && t < other[3] && b > other[1])) continue;
      taken.push([l, t, r, b]);
      return [x, y];
    }
    return null;
  };
  return wanted.flatMap(({ fresh, curve }) => {
    const whole = graph.shape(fresh[0]) + (fresh.length > 1 ? ` +${fresh.length - 1}` : "");
    let words = whole;
    let place = roomFor(curve, words);
    if (!place) {
      words = "⋯";
      place = roomFor(curve, words);
      count.left += 1;
      if (!place) return [];
    }
    const text = draw("text", { class: "shape", x: place[0] + left, y: place[1] + top + 3, "aria-hidden": "true" }, words);
    text.append(draw("title", {}, fresh.map((node) => `${graph.name(node)}: ${graph.shape(node)}`).join("\n")));
    return [text];
  });
}

// A point of the Bézier curves that an edge is made of, `share` of their number along it.
function pointOf(curve, share) {
  const pieces = (curve.length / 2 - 1) / 3;
  const piece = Math.min(pieces - 1, Math.floor(share * pieces));
  const t = share * pieces - piece;
  const weights = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
  const mix = (axis) => weights.reduce((sum, weight, at) => sum + weight * curve[6 * piece + 2 * at + axis], 0);
  return [mix(0), mix(1)];
}
