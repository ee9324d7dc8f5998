// The explorer: opens groups in place, pans, zooms, searches, and shows what is selected in the panel.

const SVG = "http://www.w3.org/2000/svg";
const MOST_RESULTS = 30;
const ZOOM_STEP = 1.3;
const FEW_BOXES = 40;
const VIEW_WORDS = { partition: "engines, then modules", module: "modules" };

// How long it takes until the change is on the way to the screen: `performance.getEntriesByType("measure")` lists it.
function timed(name, action) {
  const start = performance.now();
  const result = action();
  performance.measure(name, { start, end: performance.now() });
  return result;
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

class Explorer {
  static mostBoxes = 1500;  // drawing is what takes time: 0.08 ms for each element

  constructor(holder, graph) {
    this.graph = graph;
    this.open = this.firstOpen();
    this.chosen = null;  // {node} or {group}
    this.view = { x: 0, y: 0, scale: 1 };
    this.build(holder);
    this.render();
    this.fit();
    showGroup(this.panel, graph, 0, true, (target) => this.reveal(target), (group) => this.toggle(group));
  }

  // A level whose only group holds nearly all is opened: one closed box shows nothing.
  firstOpen() {
    const { groups } = this.graph;
    const open = new Set([0]);
    let sum = groups[0].boxes.length;
    for (let at = 0; ;) {
      const inner = groups[at].boxes.filter((box) => box.group !== null);
      sum += inner.length === 1 ? groups[inner[0].group].boxes.length : 0;
      if (inner.length !== 1 || sum > FEW_BOXES) return open;
      at = inner[0].group;
      open.add(at);
    }
  }

  build(holder) {
    const button = (label, text, action) => make("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
    this.search = make("input", { type: "search", placeholder: "Search op, node, module, shape", "aria-label": "Search the graph" });
    this.status = make("span", { role: "status", class: "where" });
    this.results = make("ul", { class: "results", "aria-label": "Search results" });
    this.layer = draw("g", {});
    const tip = draw("marker", { id: "explorer-tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      draw("path", { d: "M0 0 8 4 0 8z" }));
    this.svg = draw("svg", { role: "group", "aria-label": "Graph. Arrow keys move between boxes, Enter opens, Escape closes." },
      draw("defs", {}, tip), this.layer);
    this.stage = make("div", { class: "stage" }, this.svg);
    this.panel = make("div", { class: "panel", "aria-label": "Details", role: "region", tabindex: "0" });
    const options = this.graph.views.map((view) => make("option", { value: view }, VIEW_WORDS[view]));
    this.grouping = make("select", { "aria-label": "Group by" }, ...options);
    const choice = options.length > 1 ? make("label", {}, "Group by ", this.grouping) : null;
    const bar = make("div", { class: "bar" }, this.search, ...(choice ? [choice] : []),
      button("Zoom in", "+", () => this.zoom(ZOOM_STEP)), button("Zoom out", "−", () => this.zoom(1 / ZOOM_STEP)),
      button("Fit the graph into the frame", "Fit", () => this.fit()),
      button("Close all groups", "Close all", () => { this.open = new Set([0]); this.chosen = null; this.render(); this.fit(); }), this.status);
    holder.append(make("div", { class: "frame" }, bar, this.results, this.stage, this.panel));
    this.listen();
  }

  listen() {
    this.search.addEventListener("input", () => timed("explorer-search", () => this.find(this.search.value)));
    this.grouping.addEventListener("change", () => this.regroup(this.grouping.value));
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.results.querySelector("button")?.click();
      if (event.key === "Escape") { this.search.value = ""; this.find(""); }
    });
    this.svg.addEventListener("click", (event) => {
      const element = event.target.closest(".box");
      if (element && !this.dragged) this.activate(element);
    });
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;  // a plain wheel scrolls the page
      event.preventDefault();
      const frame = this.stage.getBoundingClientRect();
      this.zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.clientX - frame.left, event.clientY - frame.top);
    }, { passive: false });
    this.stage.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.drag = { x: event.clientX, y: event.clientY, from: { ...this.view } };
      this.dragged = false;
    });
    this.stage.addEventListener("pointermove", (event) => {
      if (!this.drag) return;
      const dx = event.clientX - this.drag.x;
      const dy = event.clientY - this.drag.y;
      if (!this.dragged && Math.hypot(dx, dy) < 5) return;
      if (!this.dragged) this.stage.setPointerCapture(event.pointerId);
      this.dragged = true;
      this.stage.classList.add("dragging");
      this.view.x = this.drag.from.x + dx;
      this.view.y = this.drag.from.y + dy;
      this.move();
    });
    const drop = () => { this.drag = null; this.stage.classList.remove("dragging"); setTimeout(() => { this.dragged = false; }, 0); };
    this.stage.addEventListener("pointerup", drop);
    this.stage.addEventListener("pointercancel", drop);
  }

  key(event) {
    const element = event.target.closest(".box");
    if (!element) return;
    const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (step) this.focusNear(element, step);
    else if (event.key === "Enter" || event.key === " ") this.activate(element);
    else if (event.key === "Escape") this.closeAround(element);
    else if (event.key === "+") this.zoom(ZOOM_STEP);
    else if (event.key === "-") this.zoom(1 / ZOOM_STEP);
    else return;
    event.preventDefault();
  }

  focusNear(element, [dx, dy]) {
    const middle = (frame) => [frame.x + frame.width / 2, frame.y + Math.min(frame.height, 40) / 2];
    const [x, y] = middle(this.frames.get(element));
    let best = null;
    for (const other of this.layer.querySelectorAll(".box")) {
      if (other === element) continue;
      const [ox, oy] = middle(this.frames.get(other));
      const ahead = (ox - x) * dx + (oy - y) * dy;
      const aside = Math.abs((ox - x) * dy) + Math.abs((oy - y) * dx);
      if (ahead > 1 && (best === null || ahead + 2 * aside < best.far)) best = { far: ahead + 2 * aside, other };
    }
    if (best) this.focus(best.other);
  }

  focus(element) {
    for (const box of this.layer.querySelectorAll('.box[tabindex="0"]')) box.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    element.focus({ preventScroll: true });
    this.bringIn(element);
  }

  // Where a box is in the stage.  From what was drawn: asking the browser makes it lay out thousands of elements.
  frameOf(element) {
    const { x, y, width, height } = this.frames.get(element);
    const { scale } = this.view;
    return { x: this.view.x + x * scale, y: this.view.y + y * scale, width: width * scale, height: height * scale };
  }

  bringIn(element) {
    const { x, y, width, height } = this.frameOf(element);
    const { clientWidth, clientHeight } = this.stage;
    const inset = 20;
    if (x < 0) this.view.x += inset - x;
    else if (x + width > clientWidth) this.view.x -= Math.min(x + width - clientWidth + inset, x - inset);
    if (y < 0) this.view.y += inset - y;
    else if (y + height > clientHeight) this.view.y -= Math.min(y + height - clientHeight + inset, y - inset);
    this.move();
  }

  activate(element) {
    if (element.dataset.group !== undefined) timed("explorer-expand", () => this.toggle(Number(element.dataset.group)));
    else this.select({ node: Number(element.dataset.node) });
  }

  closeAround(element) {
    const group = element.dataset.group !== undefined && this.open.has(Number(element.dataset.group))
      ? Number(element.dataset.group)
      : this.graph.home[Number(element.dataset.node ?? -1)] ?? this.graph.groups[Number(element.dataset.group)].parent;
    if (group) this.toggle(group);
  }

  toggle(group) {
    const opening = !this.open.has(group);
    if (opening && this.visibleBoxes() + this.graph.groups[group].boxes.length > Explorer.mostBoxes) {
      this.say(`More than ${Explorer.mostBoxes} boxes: close a group first`);
      return;
    }
    if (opening) this.open.add(group); else this.close(group);
    const earlier = this.elementOf({ group });
    const before = earlier && this.frameOf(earlier);
    this.chosen = { group };
    this.render();
    const element = this.elementOf({ group });
    if (before && element) {  // the box stays under the pointer
      const after = this.frameOf(element);
      this.view.x += before.x - after.x;
      this.view.y += before.y - after.y;
    }
    this.select({ group });
    if (element) this.focus(element);
  }

  // The same node, or else the whole, in the other grouping.
  regroup(view) {
    const node = this.chosen?.node;
    this.graph.use(view);
    this.grouping.value = view;
    this.chosen = null;
    this.open = this.firstOpen();
    this.render();
    this.fit();
    if (node !== undefined) this.reveal({ node }); else this.show({ group: 0 });
    this.find(this.search.value);
    this.grouping.focus({ preventScroll: true });
  }

  close(group) {
    this.open.delete(group);
    for (const box of this.graph.groups[group].boxes) if (box.group !== null && this.open.has(box.group)) this.close(box.group);
  }

  visibleBoxes() {
    let sum = 0;
    for (const group of this.open) sum += this.graph.groups[group].boxes.length;
    return sum;
  }

  say(text) { this.status.textContent = text; }

  select(target) {
    this.chosen = target;
    this.say("");
    history.replaceState(null, "", this.linkTo(target));
    this.show(target);
  }

  // The address of what is chosen: it holds over renumbered boxes and other groupings.
  linkTo({ node, group }) {
    if (node !== undefined) return `#node=${encodeURIComponent(this.graph.name(node))}`;
    const { label, path } = this.graph.groups[group];
    const engine = /^engine (\d+)$/.exec(label);
    if (engine) return `#engine=${engine[1]}`;
    return path ? `#module=${encodeURIComponent(path)}` : "#graph";
  }

  // Goes where the address says; other addresses are the page's own.
  follow(hash) {
    const [, kind, rest] = /^#(node|module|engine)=(.*)$/.exec(hash) ?? [];
    if (!kind) return;
    let name = rest;
    try { name = decodeURIComponent(rest); } catch { /* it stands as it is written */ }
    document.getElementById("graph").scrollIntoView();
    if (kind === "node") {
      const node = this.graph.nodeNamed(name);
      if (node >= 0) this.reveal({ node }); else this.say(`no node is named ${name}`);
      return;
    }
    const wanted = kind === "engine" ? "partition" : "module";
    if (this.graph.view !== wanted && this.graph.views.includes(wanted)) this.regroup(wanted);
    const group = this.graph.groupNamed(kind === "engine" ? `engine ${name}` : name);
    if (group > 0) { this.open.add(group); this.reveal({ group }); } else this.say(`no box is named ${name}`);
  }

  show(target) {
    for (const box of this.layer.querySelectorAll(".box.selected")) box.classList.remove("selected");
    this.elementOf(target)?.classList.add("selected");
    const reveal = (other) => this.reveal(other);
    if (target.group !== undefined) showGroup(this.panel, this.graph, target.group, this.open.has(target.group), reveal, (group) => this.toggle(group));
    else showNode(this.panel, this.graph, target.node, reveal);
    this.panel.scrollTop = 0;
  }

  elementOf({ node, group }) {
    return this.layer.querySelector(node !== undefined ? `.box[data-node="${node}"]` : `.box[data-group="${group}"]`);
  }

  // Opens what is around a node or group, selects it, and brings it into the frame.
  reveal(target) {
    const { graph } = this;
    const inner = target.node !== undefined ? graph.home[target.node] : graph.groups[target.group].parent ?? 0;
    const way = graph.above(inner);
    const start = performance.now();
    const needed = way.filter((group) => !this.open.has(group)).reduce((sum, group) => sum + graph.groups[group].boxes.length, 0);
    if (this.visibleBoxes() + needed > Explorer.mostBoxes) this.open = new Set([0]);
    way.forEach((group) => this.open.add(group));
    this.render();
    this.select(target);
    // What is not drawn is listed with its module: that is what can be shown.
    const element = this.elementOf(target) ?? this.elementOf({ group: inner });
    if (!element) return;
    if (this.view.scale < 0.6) this.view.scale = 0.9;
    const box = this.frameOf(element);
    const { clientWidth, clientHeight } = this.stage;
    this.view.x += clientWidth / 2 - (box.x + box.width / 2);
    this.view.y += clientHeight / 2 - (box.y + Math.min(box.height, clientHeight) / 2);
    this.focus(element);
    performance.measure("explorer-reveal", { start, end: performance.now() });
  }

  revealFinding(id) {
    const at = this.graph.findings.findIndex((finding) => finding.id === id);
    const places = at < 0 ? { nodes: [], group: -1 } : this.graph.placesOf(at);
    document.getElementById("graph").scrollIntoView();
    if (places.nodes.length > 0) {
      this.reveal({ node: places.nodes[0] });
      if (places.nodes.length > 1) this.say(`1 of ${places.nodes.length} marked nodes`);
    } else if (places.group > 0) this.reveal({ group: places.group });
    else this.say(`${id} names no box of the graph`);
  }

  find(words) {
    const found = this.graph.search(words, MOST_RESULTS);
    const entry = (text, target) => make("li", {}, make("button", { type: "button", class: "link", onclick: () => this.reveal(target) }, text));
    const entries = [
      ...found.groups.map((group) => entry(`${this.graph.groups[group].path} (module)`, { group })),
      ...found.nodes.map((node) => entry(`${this.graph.name(node)}  ${this.graph.node(node).module}`, { node })),
    ];
    if (found.more) entries.push(make("li", {}, "and more: type on"));
    if (words.trim() && entries.length === 0) entries.push(make("li", {}, "nothing found"));
    this.results.replaceChildren(...entries);
  }

  render() {
    const place = (group) => placeLevel(this.graph.groups[group].layout, (at) => {
      const inner = this.graph.groups[group].boxes[at].group;
      return inner !== null && this.open.has(inner) ? place(inner) : null;
    });
    this.placed = place(0);
    this.frames = new Map();
    const boxes = [];
    this.collect(0, this.placed, 0, 0, boxes);
    this.layer.replaceChildren(...boxes);
    const first = this.layer.querySelector(".box");
    if (first) first.setAttribute("tabindex", "0");
    if (this.chosen) this.elementOf(this.chosen)?.classList.add("selected");
  }

  // Boxes of a level, then its edges, then what is inside: an open box lies under its content.
  collect(group, level, left, top, out) {
    level.boxes.forEach((placed, at) => out.push(this.box(this.graph.groups[group].boxes[at], placed, left, top)));
    for (const curve of level.curves) {
      const points = [];
      for (let at = 0; at < curve.length; at += 2) points.push(`${(curve[at] + left).toFixed(1)} ${(curve[at + 1] + top).toFixed(1)}`);
      out.push(draw("path", { class: "edge", d: `M${points[0]}C${points.slice(1).join(" ")}`, "marker-end": "url(#explorer-tip)" }));
    }
    level.boxes.forEach((placed, at) => {
      if (!placed.inside) return;
      const x = left + placed.x - placed.inside.width / 2;
      const y = top + placed.y - placed.height / 2 + HEADER_HEIGHT;
      this.collect(this.graph.groups[group].boxes[at].group, placed.inside, x, y, out);
    });
  }

  box(box, placed, left, top) {
    const { graph } = this;
    const found = graph.findingsOf(box);
    const worst = graph.worst(found);
    const isOpen = Boolean(placed.inside);
    const x = left + placed.x - placed.width / 2;
    const y = top + placed.y - placed.height / 2;
    const kind = box.group !== null ? `group${isOpen ? " open" : ""} ${this.sideOf(box.group)}` : `${graph.role(box.node)} ${graph.side(box.node)}`;
    const label = `${box.group === null ? "" : isOpen ? "− " : "+ "}${box.label}`;
    const shown = isOpen ? label : `${label} ${box.sub}`;
    // The title is what a screen reader says and what a pointer shows; the texts repeat it for the eye.
    const more = [box.node !== null && graph.name(box.node) !== box.label ? graph.name(box.node) : "",
      { torch: "in PyTorch", mixed: "partly in PyTorch", gone: "not run" }[box.group !== null ? this.sideOf(box.group) : graph.side(box.node)] ?? "",
      found.length > 0 ? `${found.length} ${found.length === 1 ? "finding" : "findings"}, worst ${worst}` : ""].filter(Boolean);
    const words = [shown.trim(), ...more].join(", ");
    const element = draw("g", { class: `box ${kind.trim()}${worst ? ` marked-${worst}` : ""}`, tabindex: "-1", role: "button" },
      draw("title", {}, words),
      draw("rect", { x, y, width: placed.width, height: placed.height, rx: 5 }),
      draw("text", { x: x + 10, y: y + 16, class: box.group !== null ? "title" : "", "aria-hidden": "true" }, label));
    this.frames.set(element, { x, y, width: placed.width, height: placed.height });
    if (box.group !== null) { element.dataset.group = box.group; element.setAttribute("aria-expanded", String(isOpen)); } else element.dataset.node = box.node;
    if (box.group !== null && this.sideOf(box.group) === "mixed") {
      const { engine, torch } = graph.groups[box.group].runs;
      const share = Math.max(0.02, torch / (engine + torch)) * (placed.width - 20);  // a single op is still seen
      const bar = { x: x + 10, y: y + (isOpen ? 21 : 33.5), height: 2.5 };
      element.append(draw("rect", { ...bar, class: "share engine", width: placed.width - 20 }),
        draw("rect", { ...bar, class: "share torch", x: x + placed.width - 10 - share, width: share }));
    }
    if (!isOpen) element.append(draw("text", { x: x + 10, y: y + 30, class: "sub", "aria-hidden": "true" }, box.sub));
    if (box.chips.length > 0) {
      const chip = draw("text", { x: x + 10, y: y - 2, class: "chip", "aria-hidden": "true" }, `⇠${box.chips.length}`);
      chip.append(draw("title", {}, `also reads ${box.chips.map((node) => graph.name(node)).join(", ")}`));
      element.append(chip);
    }
    if (found.length > 0) {
      element.append(draw("circle", { class: `badge ${worst}`, cx: x + placed.width - 2, cy: y + 2, r: 8 }),
        draw("text", { class: "badge-text", "aria-hidden": "true", x: x + placed.width - 2, y: y + 5.5 }, String(found.length)));
    }
    return element;
  }

  sideOf(group) {
    const { engine, torch } = this.graph.groups[group].runs;
    return engine && torch ? "mixed" : engine ? "engine" : torch ? "torch" : "";
  }

  move() { this.layer.setAttribute("transform", `translate(${this.view.x} ${this.view.y}) scale(${this.view.scale})`); }

  zoom(factor, x = this.stage.clientWidth / 2, y = this.stage.clientHeight / 2) {
    const scale = Math.min(3, Math.max(0.05, this.view.scale * factor));
    this.view.x = x - (x - this.view.x) * (scale / this.view.scale);
    this.view.y = y - (y - this.view.y) * (scale / this.view.scale);
    this.view.scale = scale;
    this.move();
  }

  // Fits the width, and the height too, as far as that leaves text readable.
  fit() {
    const room = 16;
    const { clientWidth: width, clientHeight: height } = this.stage;
    const wide = (width - 2 * room) / this.placed.width;
    const high = (height - 2 * room) / this.placed.height;
    const scale = Math.max(0.55, Math.min(1, wide, high < 0.8 ? 1 : high));
    this.view = { scale, x: (width - this.placed.width * scale) / 2, y: room };
    this.move();
  }
}

async function startExplorer() {
  const holder = document.getElementById("explorer");
  if (!holder) return;
  const raw = JSON.parse(await unpackText(document.getElementById("graph-payload")));
  document.documentElement.classList.add("explored");
  const explorer = new Explorer(holder, readGraph(raw));
  performance.mark("explorer-ready");
  explorer.follow(location.hash);
  window.addEventListener("hashchange", () => explorer.follow(location.hash));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.show");
    if (button) explorer.revealFinding(button.dataset.finding);
  });
}
startExplorer();
