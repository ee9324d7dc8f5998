// Makes elements.  Everything goes in as text nodes: a name is never read as markup.

const SVG = "http://www.w3.org/2000/svg";

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value); else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// Long words can be broken between their parts, as those of pages can.
function breakable(text) {
  return text.split(/(?<=[._/])(?=\w)/).flatMap((part, at) => (at ? [document.createElement("wbr"), part] : [part]));
}

const pressable = (label, text, action) => make("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
const linkTo = (text, action) => make("button", { type: "button", class: "link", onclick: action }, ...breakable(text));

// Many elements in a row are one stop of the Tab key; arrow keys go from one to the next.
function walkByArrows(elements, back, on) {
  elements.forEach((element, at) => {
    element.setAttribute("tabindex", at ? "-1" : "0");
    element.addEventListener("keydown", (event) => {
      const next = { [back]: at - 1, [on]: at + 1, Home: 0, End: elements.length - 1 }[event.key];
      if (!elements[next]) return;
      event.preventDefault();
      elements[next].focus();
    });
    element.addEventListener("focus", () => elements.forEach((other) => other.setAttribute("tabindex", other === element ? "0" : "-1")));
  });
}

// How long it takes until the change is on the way to the screen: `performance.getEntriesByType("measure")` lists it.
function timed(name, action) {
  const start = performance.now();
  const result = action();
  performance.measure(name, { start, end: performance.now() });
  return result;
}
