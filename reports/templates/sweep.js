// The table of programs: sorted by any column, searched, and filtered by verdict.
document.documentElement.classList.add("js");
const sheet = new CSSStyleSheet();
sheet.replaceSync(SCRIPTED_STYLE);
document.adoptedStyleSheets.push(sheet);

const table = document.querySelector("table.programs");
const body = table.tBodies[0];
const lines = [...body.rows];
const texts = new Map(lines.map((line) => [line, `${line.textContent} ${line.dataset.also ?? ""}`.toLowerCase()]));
const field = document.getElementById("find");
const boxes = [...document.querySelectorAll("input[name=state]")];
const told = document.getElementById("shown");

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const states = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
  let count = 0;
  for (const line of lines) {
    const text = texts.get(line);
    const fits = states.has(line.dataset.state) && words.every((word) => text.includes(word));
    line.hidden = !fits;
    if (fits) count++;
  }
  told.textContent = `${count.toLocaleString("en")} of ${lines.length.toLocaleString("en")} rows`;
}

// What a cell is sorted by: a number, or its text; nothing comes last, whichever way.
function keyOf(line, column) {
  const cell = line.cells[column];
  if (!cell.textContent) return null;
  if (cell.dataset.n !== undefined) return Number(cell.dataset.n);
  const number = Number(cell.textContent.replaceAll(",", ""));
  return Number.isNaN(number) ? cell.textContent.trim().toLowerCase() : number;
}

function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}

function sort(head, column) {
  const descending = head.getAttribute("aria-sort") === "ascending";
  for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", descending ? "descending" : "ascending");
  const keys = new Map(lines.map((line) => [line, keyOf(line, column)]));
  lines.sort((one, other) => {
    const [first, second] = [keys.get(one), keys.get(other)];
    if (first === null || second === null) return (first === null) - (second === null);
    return descending ? compare(second, first) : compare(first, second);
  });
  body.append(...lines);
}

[...table.tHead.rows[0].cells].forEach((head, column) => {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "sort";
  button.textContent = head.textContent;
  button.addEventListener("click", () => sort(head, column));
  head.replaceChildren(button);
});

field.form.addEventListener("submit", (event) => event.preventDefault());
field.addEventListener("input", show);
for (const box of boxes) box.addEventListener("change", show);
document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-find]");
  if (!button) return;
  field.value = button.dataset.find;
  show();
  document.getElementById("programs").scrollIntoView();
  field.focus({ preventScroll: true });
});
show();
