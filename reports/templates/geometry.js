// Where boxes and edges are when some groups are open.  Coordinates come precomputed for closed boxes; an open box
// stretches its level.  The stretch is monotone with slopes of 1 or more: order stays, no two boxes come to overlap.

const HEADER_HEIGHT = 26;
const INSET = 16;

// A map of one axis under which each span [start, end] is at least `size` long.
function stretchAxis(spans) {
  const cuts = [...new Set(spans.flatMap((span) => [span.start, span.end]))].sort((a, b) => a - b);
  const slopes = new Array(Math.max(0, cuts.length - 1)).fill(1);
  for (const span of spans) {
    const first = cuts.indexOf(span.start);
    const last = cuts.indexOf(span.end);
    let length = 0;
    for (let at = first; at < last; at++) length += (cuts[at + 1] - cuts[at]) * slopes[at];
    if (length >= span.size) continue;
    for (let at = first; at < last; at++) slopes[at] *= span.size / length;
  }
  const ends = [];  // where each cut goes
  for (let at = 0; at < cuts.length; at++) {
    ends.push(at === 0 ? cuts[0] : ends[at - 1] + (cuts[at] - cuts[at - 1]) * slopes[at - 1]);
  }
  return (value) => {
    if (cuts.length === 0 || value <= cuts[0]) return value;
    let low = 0;
    let high = cuts.length - 1;
    if (value >= cuts[high]) return ends[high] + value - cuts[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (cuts[middle] <= value) low = middle; else high = middle;
    }
    return ends[low] + (value - cuts[low]) * slopes[low];
  };
}

// One level: {width, height, boxes: [{x, y, width, height, inside}], curves: [[x, y, ...]]}.  x and y are centres.
// `inside` gives the placed level of an open box, or null for a closed one.
function placeLevel(layout, inside) {
  const [width, height, closed, edges] = layout;
  const boxes = [];
  for (let at = 0; at < closed.length / 4; at++) {
    const [x, y, w, h] = closed.slice(4 * at, 4 * at + 4);
    const level = inside(at);
    boxes.push({
      x, y, inside: level,
      width: level ? Math.max(w, level.width + 2 * INSET) : w,
      height: level ? level.height + HEADER_HEIGHT + INSET : h,
      was: { x, y, width: w, height: h },
    });
  }
  const open = boxes.filter((box) => box.inside);
  const alongX = stretchAxis(open.map(({ was, width: size }) => (
    { start: was.x - was.width / 2, end: was.x + was.width / 2, size })));
  const alongY = stretchAxis(open.map(({ was, height: size }) => (
    { start: was.y - was.height / 2, end: was.y + was.height / 2, size })));
  for (const box of boxes) {
    const { was } = box;
    if (box.inside) {
      box.x = (alongX(was.x - was.width / 2) + alongX(was.x + was.width / 2)) / 2;
      box.y = (alongY(was.y - was.height / 2) + alongY(was.y + was.height / 2)) / 2;
    } else {
      box.x = alongX(was.x);
      box.y = alongY(was.y);
    }
  }
  const curves = edges.map(([tail, head, ...points]) => moveCurve(points, boxes[tail], boxes[head], alongX, alongY));
  return { width: alongX(width), height: alongY(height), boxes, edges, curves };
}

// An end keeps its relative place on its box; the control point beside it moves by as much.  An end that the layout
// left a hair off the border, on either side, comes to it: in an open box the hair would be as many times as long.
function moveCurve(points, tail, head, alongX, alongY) {
  const moved = points.map((value, at) => (at % 2 === 0 ? alongX(value) : alongY(value)));
  const last = points.length - 2;
  for (const [end, beside, box] of [[0, 2, tail], [last, last - 2, head]]) {
    const shares = [(points[end] - box.was.x) / box.was.width, (points[end + 1] - box.was.y) / box.was.height];
    const border = Math.abs(shares[0]) > Math.abs(shares[1]) ? 0 : 1;
    const along = (axis) => (axis === border ? Math.sign(shares[axis]) * 0.5 : Math.min(0.5, Math.max(-0.5, shares[axis])));
    const x = box.x + along(0) * box.width;
    const y = box.y + along(1) * box.height;
    moved[beside] += x - moved[end];
    moved[beside + 1] += y - moved[end + 1];
    moved[end] = x;
    moved[end + 1] = y;
  }
  return moved;
}
