// Draws boxes and edges of placed levels.

const RUNS = { torch: "in PyTorch", mixed: "partly in PyTorch", gone: "not run" };

class Boxes {
  constructor(layer, graph, colouring) {
    Object.assign(this, { layer, graph, colouring, withShapes: false, lit: new Set(), litGroups: new Set(), frames: new Map() });
  }

  render(open) {
    const place = (group) => placeLevel(this.graph.groups[group].layout, (at) => {
      const inner = this.graph.groups[group].boxes[at].group;
      return inner !== null && open.has(inner) ? place(inner) : null;
    });
    this.placed = place(0);
    this.shapes = { left: 0 };  // how many have no room on their edges
    this.frames = new Map();
    const elements = [];
    this.collect(0, this.placed, 0, 0, elements);
    this.layer.replaceChildren(...elements);
    this.layer.querySelector(".box")?.setAttribute("tabindex", "0");
  }

  of({ node, group }) {
    return this.layer.querySelector(node !== undefined ? `.box[data-node="${node}"]` : `.box[data-group="${group}"]`);
  }

  // Boxes of a level, then its edges, then what is inside: an open box lies under its content.
  collect(at, level, left, top, out) {
    const group = this.graph.groups[at];
    level.boxes.forEach((placed, box) => out.push(this.box(group.boxes[box], placed, left, top)));
    for (const curve of level.curves) {
      const points = [];
      for (let at = 0; at < curve.length; at += 2) points.push(`${(curve[at] + left).toFixed(1)} ${(curve[at + 1] + top).toFixed(1)}`);
      out.push(draw("path", { class: "edge", d: `M${points[0]}C${points.slice(1).join(" ")}`, "marker-end": "url(#explorer-tip)" }));
    }
    const hasWords = (box) => box.chips.length > 0 || this.colouring.of(box)[1] !== "";
    if (this.withShapes) out.push(...shapeTexts(this.graph, group, level, left, top, hasWords, this.shapes));
    level.boxes.forEach((placed, box) => {
      if (!placed.inside) return;
      const x = left + placed.x - placed.inside.width / 2;
      const y = top + placed.y - placed.height / 2 + HEADER_HEIGHT;
      this.collect(group.boxes[box].group, placed.inside, x, y, out);
    });
  }

  box(box, placed, left, top) {
    const { graph } = this;
    const found = graph.findingsOf(box);
    const worst = graph.worst(found);
    const isOpen = Boolean(placed.inside);
    const isGroup = box.group !== null;
    const { width, height } = placed;
    const x = left + placed.x - width / 2;
    const y = top + placed.y - height / 2;
    const side = isGroup ? this.sideOf(box.group) : graph.side(box.node);
    const [tone, tag] = this.colouring.of(box);
    const kinds = [isGroup ? "group" : graph.role(box.node), isOpen ? "open" : "", side, worst && `marked-${worst}`, tone];
    const label = `${!isGroup ? "" : isOpen ? "− " : "+ "}${box.label}`;
    const shown = isOpen ? label : `${label} ${box.sub}`;
    // The title is what a screen reader says and what a pointer shows; the texts repeat it for the eye.
    const words = [shown.trim(), !isGroup && graph.name(box.node) !== box.label ? graph.name(box.node) : "", RUNS[side],
      found.length > 0 ? `${found.length} ${found.length === 1 ? "finding" : "findings"}, worst ${worst}` : "",
      this.colouring.kind === "severity" ? "" : tag].filter(Boolean);
    const element = draw("g", { class: `box ${kinds.filter(Boolean).join(" ")}`, tabindex: "-1", role: "button" },
      draw("title", {}, words.join(", ")),
      draw("rect", { x, y, width, height, rx: 5 }),
      draw("text", { x: x + 10, y: y + 16, class: isGroup ? "title" : "", "aria-hidden": "true" }, label));
    this.frames.set(element, { x, y, width, height });
    if (this.isLit(box) && !isOpen) this.halo(element);
    if (isGroup) { element.dataset.group = box.group; element.setAttribute("aria-expanded", String(isOpen)); } else element.dataset.node = box.node;
    if (side === "mixed" && this.colouring.kind === "runs") {
      const { engine, torch } = graph.groups[box.group].runs;
      const share = Math.max(0.02, torch / (engine + torch)) * (width - 20);  // a single op is still seen
      const bar = { x: x + 10, y: y + (isOpen ? 21 : 33.5), height: 2.5 };
      element.append(draw("rect", { ...bar, class: "share engine", width: width - 20 }),
        draw("rect", { ...bar, class: "share torch", x: x + width - 10 - share, width: share }));
    }
    if (!isOpen) element.append(draw("text", { x: x + 10, y: y + 30, class: "sub", "aria-hidden": "true" }, box.sub));
    if (box.chips.length > 0) {
      const chip = draw("text", { x: x + 10, y: y - 2, class: "chip", "aria-hidden": "true" }, `⇠${box.chips.length}`);
      chip.append(draw("title", {}, `also reads ${box.chips.map((node) => graph.name(node)).join(", ")}`));
      element.append(chip);
    }
    if (tag) element.append(draw("text", { x: x + width - 12, y: y - 3, class: "chip tag", "aria-hidden": "true" }, tag));
    if (found.length > 0) {
      element.append(draw("circle", { class: `badge ${worst}`, cx: x + width - 2, cy: y + 2, r: 8 }),
        draw("text", { class: "badge-text", "aria-hidden": "true", x: x + width - 2, y: y + 5.5 }, String(found.length)));
    }
    return element;
  }

  isLit({ node, group }) { return node !== null ? this.lit.has(node) : this.litGroups.has(group); }

  // Lights nodes, and the groups that they are in.
  light(nodes) {
    if (this.lit.size === 0 && nodes.length === 0) return;
    this.lit = new Set(nodes);
    this.litGroups = new Set(nodes.flatMap((node) => this.graph.above(this.graph.home[node])));
    for (const element of this.frames.keys()) {
      element.classList.remove("lit");
      element.querySelector(".halo")?.remove();
      const { node, group } = element.dataset;
      if (element.ariaExpanded !== "true" && this.isLit({ node: node === undefined ? null : Number(node), group: Number(group) })) this.halo(element);
    }
  }

  halo(element) {
    const { x, y, width, height } = this.frames.get(element);
    element.classList.add("lit");
    element.querySelector("rect").after(draw("rect", { class: "halo", x: x - 4, y: y - 4, width: width + 8, height: height + 8, rx: 8 }));
  }

  sideOf(group) {
    const { engine, torch } = this.graph.groups[group].runs;
    return engine && torch ? "mixed" : engine ? "engine" : torch ? "torch" : "";
  }

  // The next box in a direction.
  near(element, [dx, dy]) {
    const middle = (frame) => [frame.x + frame.width / 2, frame.y + Math.min(frame.height, 40) / 2];
    const [x, y] = middle(this.frames.get(element));
    let best = null;
    for (const [other, frame] of this.frames) {
      if (other === element) continue;
      const [ox, oy] = middle(frame);
      const ahead = (ox - x) * dx + (oy - y) * dy;
      const far = ahead + 2 * (Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx));
      if (ahead > 1 && (best === null || far < best.far)) best = { far, other };
    }
    return best?.other;
  }
}
