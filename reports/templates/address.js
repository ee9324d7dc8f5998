// The address of what is chosen: it holds over renumbered boxes and other groupings, and the back button goes through it.

function addressOf(graph, { node, group, line }) {
  if (line !== undefined) return `#line=${encodeURIComponent(line)}`;
  if (node !== undefined) return `#node=${encodeURIComponent(graph.name(node))}`;
  const { label, path } = graph.groups[group];
  const engine = /^engine (\d+)$/.exec(label);
  if (engine) return `#engine=${engine[1]}`;
  return path ? `#module=${encodeURIComponent(path)}` : "#graph";
}

function remember(address) {
  if (location.hash !== address) history.pushState(null, "", address);
}

// Goes where the address says; other addresses are the page's own.
function follow(explorer, hash) {
  const { graph } = explorer;
  const [, kind, rest] = /^#(node|module|engine|step|line)=(.*)$/.exec(hash) ?? [];
  if (!kind) {
    if (hash === "" || hash === "#graph") explorer.choose(null);
    return;
  }
  let name = rest;
  try { name = decodeURIComponent(rest); } catch { /* it stands as it is written */ }
  document.getElementById("graph").scrollIntoView();
  const missing = () => explorer.say(`no ${kind === "node" || kind === "line" ? kind : "box"} is named ${name}`);
  if (kind === "line") return explorer.showLine(name) || missing();
  if (kind === "node") {
    const node = graph.nodeNamed(name);
    return node >= 0 ? explorer.reveal({ node }) : missing();
  }
  const wanted = kind === "module" ? "module" : "partition";
  if (graph.view !== wanted && graph.views.includes(wanted)) explorer.regroup(wanted);
  if (kind === "step") return explorer.revealStep(Number(name)) || missing();
  const group = graph.groupNamed(kind === "engine" ? `engine ${name}` : name);
  if (group <= 0) return missing();
  explorer.open.add(group);
  return explorer.reveal({ group });
}
