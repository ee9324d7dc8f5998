// What the whole page needs: copy buttons, the download of the JSON report, the jump from a finding to the graph.
document.documentElement.classList.add("js");
const sheet = new CSSStyleSheet();
sheet.replaceSync(SCRIPTED_STYLE);
document.adoptedStyleSheets.push(sheet);

function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");  // file:// pages have no clipboard API in some browsers
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done ? Promise.resolve() : Promise.reject(new Error("copy refused"));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button.copy");
  if (!button) return;
  const code = button.parentElement.querySelector("code").textContent;
  copyText(code).then(() => "Copied", () => "Copy refused").then((word) => {
    button.textContent = word;
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
});

// On phones a row of these tables is a block, in which each cell says its head itself.
for (const table of document.querySelectorAll("table:not(.stack)")) {
  const heads = [...(table.tHead?.rows[0].cells ?? [])];
  if (heads.length < 3 || heads.every((head) => head.classList.contains("number") || !head.textContent)) continue;
  table.classList.add("fold");
  for (const row of table.tBodies[0].rows) {
    for (const cell of [...row.cells].slice(1)) cell.dataset.head = heads[cell.cellIndex].textContent;
  }
}

// A link to a finding opens what it is folded in.
function openTarget() {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { /* it stands as it is written */ }
  const target = name && document.getElementById(name);
  if (!target) return;
  for (const details of target.querySelectorAll(":scope > details")) details.open = true;
  for (let around = target.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
}
window.addEventListener("hashchange", openTarget);
openTarget();

function download(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Names of ops that follow each other, "add" for add_1 behind add; others stand behind "=".
function wholeNames(names, following) {
  return names.map((told) => {
    const name = told.startsWith("=") ? told.slice(1) : told;
    if (name === told) {
      const number = following.get(name) ?? 0;
      following.set(name, number + 1);
      return number ? `${name}_${number}` : name;
    }
    const numbered = /^([^]+)_(0|[1-9][0-9]{0,8})$/.exec(name);
    following.set(numbered ? numbered[1] : name, numbered ? Number(numbered[2]) + 1 : 1);
    return name;
  });
}

// The explorer's data stand in the page once: here they go back to their place in the JSON.
const machineTexts = async () => (await unpackText(document.getElementById("machine"))).split("\n");  // SARIF, JSON

async function wholeReport() {
  const report = JSON.parse((await machineTexts())[1]);
  const drawn = document.getElementById("graph-payload");
  if (drawn && report.page.view.graph) report.page.view.graph.payload = await unpackText(drawn);
  const following = new Map();
  for (const segment of report.partition?.segments ?? []) segment.ops = wholeNames(segment.ops, following);
  return JSON.stringify(report, null, 1) + "\n";
}

document.getElementById("download").addEventListener("click", async () => {
  download("report.json", "application/json", await wholeReport());
});
document.getElementById("download-sarif").addEventListener("click", async () => {
  const log = JSON.parse((await machineTexts())[0]);
  download("report.sarif", "application/json", JSON.stringify(log, null, 1) + "\n");
});

// Heads of sortable tables become buttons: numbers the largest first, words from a to z, a second press turns it around.
for (const head of document.querySelectorAll("table.sortable th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "sort";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => {
    const numbers = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const up = before ? before === "descending" : !numbers || head.cellIndex === 0;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => row.cells[head.cellIndex].textContent.trim();
    const number = (row) => parseFloat(key(row).replace(/,/g, "")) || 0;
    const body = head.closest("table").tBodies[0];
    const order = (a, b) => (numbers ? number(a) - number(b) : key(a).localeCompare(key(b)));
    body.append(...[...body.rows].sort((a, b) => (up ? order(a, b) : order(b, a))));
  });
}
