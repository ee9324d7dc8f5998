// The explorer: opens groups in place, and shows what is chosen in the panel and in the source.

const FEW_BOXES = 120;
const VIEW_WORDS = { partition: "engines, then modules", module: "modules" };
const LEAST_SCALE = 0.55;  // below, the text of the first picture cannot be read
const WIDE = 1400;  // pixels, from which on there is room for the source beside the graph

class Explorer {
  static mostBoxes = 1500;  // drawing is what takes time: 0.08 ms for each element

  constructor(holder, graph) {
    this.graph = graph;
    this.open = this.firstOpen();
    this.chosen = null;  // {node}, {group} or {line}
    this.build(holder);
    this.render();
    this.camera.fit(this.boxes.placed, LEAST_SCALE);
    this.show({ group: 0 });
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
    const { graph } = this;
    const layer = draw("g", {});
    const tip = draw("marker", { id: "explorer-tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" },
      draw("path", { d: "M0 0 8 4 0 8z" }));
    this.svg = draw("svg", { role: "group", "aria-label": "Graph. Arrow keys move between boxes, Enter opens, Escape closes." },
      draw("defs", {}, tip), layer);
    this.stage = make("div", { class: "stage" }, this.svg);
    this.status = make("span", { role: "status", class: "where" });
    this.panel = make("div", { class: "panel", "aria-label": "Details", role: "region", tabindex: "0" });
    this.legend = make("p", { class: "legend" });
    this.colouring = new Colouring(graph);
    this.boxes = new Boxes(layer, graph, this.colouring);
    this.camera = new Camera(this.stage, layer);
    this.search = new Search(graph, (target) => this.reveal(target));
    this.source = new SourcePane(graph, (key) => this.select({ line: key }));
    this.frame = make("div", { class: "frame" }, this.bar(), this.search.results, this.legend, this.source.element, this.stage, this.panel);
    this.fullScreen.replaceWith(fullScreenButton(this.frame, () => this.camera.fit(this.boxes.placed, LEAST_SCALE)));
    holder.append(this.frame);
    this.colouring.draw(this.legend);
    if (!this.source.isEmpty && holder.clientWidth >= WIDE) this.showSource(true);
    this.svg.addEventListener("click", (event) => {
      const element = event.target.closest(".box");
      if (element && !this.camera.dragged) this.activate(element);
    });
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  bar() {
    const { graph, colouring } = this;
    this.grouping = make("select", {}, ...graph.views.map((view) => make("option", { value: view }, VIEW_WORDS[view])));
    this.grouping.addEventListener("change", () => this.regroup(this.grouping.value));
    const choices = Object.entries(COLOURINGS).map(([kind, words]) => {
      const why = colouring.why(kind);
      return make("option", { value: kind, ...(why && { disabled: "" }) }, why ? `${words}: ${why}` : words);
    });
    const colours = make("select", {}, ...choices);
    colours.value = colouring.kind;
    colours.addEventListener("change", () => { colouring.use(colours.value); colouring.draw(this.legend); this.render(); });
    const switches = (words, action) => {
      const button = make("button", { type: "button", "aria-pressed": "false", onclick: () => action(button.getAttribute("aria-pressed") !== "true") }, words);
      return button;
    };
    const shapes = switches("Shapes", (on) => {
      shapes.setAttribute("aria-pressed", String(on));
      this.boxes.withShapes = on;
      this.render();
      const { left } = this.boxes.shapes;
      const words = left ? `${left} without room on ${left === 1 ? "its edge" : "their edges"}: point at ⋯, or open the node` : "";
      if (on) this.say(this.camera.scale < READABLE ? "zoom in to read the shapes" : words);
    });
    this.sourceSwitch = switches("Source", (on) => this.showSource(on));
    if (this.source.isEmpty) Object.assign(this.sourceSwitch, { disabled: true, title: "The program has no lines of source" });
    this.fullScreen = make("span");
    const labelled = (words, select) => make("label", {}, words, select);
    return make("div", { class: "bar" }, this.search.field,
      graph.views.length > 1 ? labelled("Group by ", this.grouping) : null, labelled("Colour by ", colours), shapes, this.sourceSwitch,
      pressable("Zoom in", "+", () => this.camera.zoom(ZOOM_STEP)), pressable("Zoom out", "−", () => this.camera.zoom(1 / ZOOM_STEP)),
      pressable("Fit the graph into the frame", "Fit", () => this.camera.fit(this.boxes.placed)),
      pressable("Close all groups", "Close all", () => this.closeAll()), this.fullScreen, this.status);
  }

  key(event) {
    const element = event.target.closest(".box");
    if (!element) return;
    const step = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    const next = step && this.boxes.near(element, step);
    if (next) this.focus(next);
    else if (event.key === "Enter" || event.key === " ") this.activate(element);
    else if (event.key === "Escape") this.closeAround(element);
    else if (event.key === "+") this.camera.zoom(ZOOM_STEP);
    else if (event.key === "-") this.camera.zoom(1 / ZOOM_STEP);
    else if (!step) return;
    event.preventDefault();
  }

  focus(element) {
    for (const box of this.svg.querySelectorAll('.box[tabindex="0"]')) box.setAttribute("tabindex", "-1");
    element.setAttribute("tabindex", "0");
    element.focus({ preventScroll: true });
    // From what was drawn: asking the browser makes it lay out thousands of elements.
    this.camera.bringIn(this.boxes.frames.get(element));
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
    const at = () => { const element = this.boxes.of({ group }); return element && this.camera.onStage(this.boxes.frames.get(element)); };
    const before = at();
    this.render();
    const after = at();
    // The box stays under the pointer.
    if (before && after) this.camera.moveTo(this.camera.x + before.x - after.x, this.camera.y + before.y - after.y);
    this.select({ group });
    const element = this.boxes.of({ group });
    if (element) this.focus(element);
  }

  // The same node, or else the whole, in the other grouping.
  regroup(view) {
    const node = this.chosen?.node;
    this.graph.use(view);
    this.colouring.use();
    this.grouping.value = view;
    this.open = this.firstOpen();
    this.chosen = null;
    this.render();
    this.choose(null);
    this.camera.fit(this.boxes.placed, LEAST_SCALE);
    if (node !== undefined) this.reveal({ node });
    this.search.find();
    this.grouping.focus({ preventScroll: true });
  }

  close(group) {
    this.open.delete(group);
    for (const box of this.graph.groups[group].boxes) if (box.group !== null && this.open.has(box.group)) this.close(box.group);
  }

  closeAll() {
    this.open = new Set([0]);
    this.chosen = null;
    this.render();
    this.choose(null);
    this.camera.fit(this.boxes.placed, LEAST_SCALE);
  }

  visibleBoxes() {
    let sum = 0;
    for (const group of this.open) sum += this.graph.groups[group].boxes.length;
    return sum;
  }

  say(text) { this.status.textContent = text; }

  // Chooses, without an entry in the history; nothing chosen shows the whole.
  choose(target) {
    this.chosen = target;
    this.boxes.light(target?.line ? this.source.nodesOf(target.line) : []);
    this.say("");
    this.show(target ?? { group: 0 });
  }

  select(target) {
    this.choose(target);
    if (!this.following) remember(addressOf(this.graph, target));
    if (target.line) this.bringLitIn();
  }

  // Goes where an address says; the history has it already.
  follow(hash) {
    this.following = true;
    follow(this, hash);
    this.following = false;
  }

  show(target) {
    for (const box of this.svg.querySelectorAll(".box.selected")) box.classList.remove("selected");
    const { panel, graph, source } = this;
    const reveal = (other) => this.reveal(other);
    if (target.line) {
      showLineNodes(panel, graph, target.line, source.nodesOf(target.line), reveal);
      source.mark([target.line]);
    } else {
      this.boxes.of(target)?.classList.add("selected");
      const line = { has: (key) => !source.isEmpty && source.has(key), show: (key) => this.showLine(key) };
      if (target.group !== undefined) showGroup(panel, graph, target.group, this.open.has(target.group), reveal, (group) => this.toggle(group));
      else showNode(panel, graph, target.node, reveal, line);
      source.mark(target.node === undefined ? [] : source.linesOf(target.node));
    }
    panel.scrollTop = 0;
  }

  showSource(visible) {
    this.source.show(visible);
    this.sourceSwitch.setAttribute("aria-pressed", String(visible));
    this.frame.classList.toggle("with-source", visible);
    if (visible && this.chosen) this.source.mark(this.chosen.line ? [this.chosen.line] : this.chosen.node !== undefined ? this.source.linesOf(this.chosen.node) : []);
  }

  // Lights what comes from a line; false where no node does.
  showLine(key) {
    if (this.source.isEmpty || !this.source.has(key)) return false;
    this.showSource(true);
    this.select({ line: key });
    return true;
  }

  bringLitIn() {
    const lit = [...this.svg.querySelectorAll(".box.lit")];
    const frames = lit.map((element) => this.boxes.frames.get(element));
    if (frames.length > 0 && !frames.some((frame) => this.camera.shows(frame))) this.camera.centre(frames[0]);
  }

  // Opens what is around a node or group, selects it, and brings it into the frame.
  reveal(target) {
    const { graph } = this;
    const inner = target.node !== undefined ? graph.home[target.node] : graph.groups[target.group].parent ?? 0;
    const start = performance.now();
    this.openAround(inner);
    this.render();
    this.select(target);
    // What is not drawn is listed with its module: that is what can be shown.
    const element = this.boxes.of(target) ?? this.boxes.of({ group: inner });
    if (!element) return;
    this.camera.centre(this.boxes.frames.get(element));
    this.focus(element);
    performance.measure("explorer-reveal", { start, end: performance.now() });
  }

  openAround(group) {
    const way = this.graph.above(group);
    const needed = way.filter((each) => !this.open.has(each)).reduce((sum, each) => sum + this.graph.groups[each].boxes.length, 0);
    if (this.visibleBoxes() + needed > Explorer.mostBoxes) this.open = new Set([0]);
    way.forEach((each) => this.open.add(each));
  }

  // A step of the execution: its box, or the ops that it has where they are too few for one; false where it has none.
  revealStep(step) {
    const { graph } = this;
    const nodes = Array.from({ length: graph.count }, (_, at) => at).filter((at) => graph.step(at) === step && graph.role(at) === "op");
    if (nodes.length === 0) return false;
    const group = graph.above(graph.home[nodes[0]]).find((at) => graph.groups[at].label === graph.steps[step]);
    if (group) this.open.add(group);
    this.reveal(group ? { group } : { node: nodes[0] });
    if (!group && nodes.length > 1) {
      this.boxes.light(nodes);
      this.say(`1 of ${nodes.length} ops`);
    }
    return true;
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

  render() {
    this.boxes.render(this.open);
    if (this.chosen && !this.chosen.line) this.boxes.of(this.chosen)?.classList.add("selected");
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
