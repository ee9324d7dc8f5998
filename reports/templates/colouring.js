// What boxes are coloured by.  A colour never stands alone: a word above the box says the same.

const MOST_SWATCHES = 12;
const TONES = 8;
const HEATS = 5;
const SEVERITIES = ["error", "warning", "info"];
const SEVERITY_WORDS = { error: "error", warning: "warning", info: "note" };
const COLOURINGS = {
  runs: "where it runs", severity: "findings", engine: "engine", precision: "precision", memory: "memory of outputs",
  time: "time", error: "error",
};

const same = (a, b) => (a === b ? a : "mixed");
const difference = (value) => (value === 0 ? "none" : Number.isFinite(value) ? value.toExponential(1) : "no number");
const ms = (value) => `${value < 1 ? value.toFixed(4) : value.toFixed(3)} ms`;

// Of each group: what is known of the nodes in it, put together.
function overGroups(graph, values, together) {
  const found = new Array(graph.groups.length);
  for (let at = found.length - 1; at >= 0; at--) {
    for (const box of graph.groups[at].boxes) {
      const value = box.node !== null ? values[box.node] : found[box.group];
      if (value !== undefined) found[at] = found[at] === undefined ? value : together(found[at], value);
    }
  }
  return found;
}

class Colouring {
  constructor(graph) {
    this.graph = graph;
    this.use(this.why("runs") ? "severity" : "runs");
  }

  why(kind) { return kind === "severity" ? "" : this.graph.lacks(kind); }

  use(kind = this.kind) {
    const { graph } = this;
    this.kind = kind;
    this.values = null;
    const every = (value) => Array.from({ length: graph.count }, (_, at) => (graph.role(at) === "op" ? value(at) : undefined));
    if (kind === "engine") this.set(every((at) => graph.step(at)), same);
    else if (kind === "precision") this.set(every((at) => graph.dtype(at) || undefined), same);
    else if (kind === "memory") this.set(every((at) => graph.bytes(at)), (a, b) => (a[0] < b[0] ? b : a), 4, ([count]) => count);
    else if (kind === "time") this.set(every((at) => graph.times.get(at)), (a, b) => a + b, 4);
    else if (kind === "error") this.set(every((at) => graph.errors.get(at)), Math.max, 10);
  }

  set(values, together, step, number = (value) => value) {
    this.values = values;
    this.ofGroups = overGroups(this.graph, values, together);
    this.step = step;
    this.number = number;
    this.distinct = [...new Set(values)].filter((value) => value !== undefined);
    this.most = step ? Math.max(0, ...this.ofGroups.filter((value) => value !== undefined).map(number).filter(Number.isFinite)) : 0;
  }

  // The class of a box, and the word above it.
  of(box) {
    const { graph, kind } = this;
    if (kind === "runs") return ["", ""];
    if (kind === "severity") {
      const worst = graph.worst(graph.findingsOf(box));
      return worst ? [`tinted severe-${worst}`, SEVERITY_WORDS[worst]] : ["tinted", ""];
    }
    const value = box.node !== null ? this.values[box.node] : this.ofGroups[box.group];
    return value === undefined ? ["tinted", ""] : [`tinted ${this.tone(value)}`, this.word(value)];
  }

  tone(value) {
    if (value === "mixed") return "";
    if (this.kind === "engine") {
      const engine = /^engine (\d+)$/.exec(this.graph.steps[value]);
      return engine ? `tone-${engine[1] % TONES}` : "torch";
    }
    if (this.kind === "precision") return `tone-${this.distinct.indexOf(value) % TONES}`;
    const number = this.number(value);
    const down = number > 0 ? Math.floor(Math.log(this.most / number) / Math.log(this.step) + 1e-9) : HEATS;
    return `heat-${Math.min(HEATS - 1, Math.max(0, HEATS - 1 - down))}`;
  }

  word(value) {
    if (value === "mixed") return "mixed";
    if (this.kind === "engine") return this.graph.steps[value];
    if (this.kind === "memory") return value[1];
    if (this.kind === "time") return ms(value);
    return this.kind === "error" ? difference(value) : value;
  }

  // Pairs of a class and what it means.
  legend() {
    const { graph, kind } = this;
    if (kind === "runs") return [["engine", "in engines"], ["torch", "PyTorch (dashed)"], ["gone", "nowhere: gone in lowering (dotted)"]];
    if (kind === "severity") return [...SEVERITIES.map((each) => [`severe-${each}`, SEVERITY_WORDS[each]]), ["", "no finding"]];
    if (!this.step) {
      const words = [...new Map(this.distinct.map((value) => [this.word(value), this.tone(value)]))];
      const shown = words.slice(0, MOST_SWATCHES).map(([word, tone]) => [tone, word]);
      return words.length > MOST_SWATCHES ? [...shown, ["", `and ${words.length - MOST_SWATCHES} more`]] : shown;
    }
    const told = graph.told[kind] ? [[null, `of ${graph.told[kind]}`]] : [];
    if (this.ofGroups[0] === 0) return [["heat-0", "no difference"], ...told];
    const what = { memory: "the largest output", time: "the whole time", error: "the largest difference" }[kind];
    const words = (at) => (at ? "" : `${what}, ${this.word(this.ofGroups[0])}; each further step ${this.step} times less`);
    return [...Array.from({ length: HEATS }, (_, at) => [`heat-${HEATS - 1 - at}`, words(at)]).reverse(), ...told];
  }

  draw(holder) {
    holder.replaceChildren(...this.legend().map(([tone, words]) => make("span", {}, tone === null ? "" : make("span", { class: `swatch ${tone}` }), words)));
  }
}
