// Saving a picture: title, legend and drawing with their inks written into them, as SVG or drawn into a canvas as PNG.

const DRAWN_STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "text-anchor"];
const PNG_SCALE = 2;
const MARGIN = 12;
const LINE = 20;
const CHAR = 6.65; // of the texts, as where they were laid out
const SWATCH = 10;
const BETWEEN = 18;

function standalone(figure) {
  const svg = figure.querySelector("svg");
  const copy = svg.cloneNode(true);
  const drawn = [...svg.querySelectorAll("rect, path, text")];
  [...copy.querySelectorAll("rect, path, text")].forEach((mark, at) => {
    const style = getComputedStyle(drawn[at]);
    for (const name of DRAWN_STYLES) mark.setAttribute(name, style.getPropertyValue(name));
    mark.removeAttribute("class");
  });
  const head = headOf(figure, svg.width.baseVal.value);
  const size = { width: head.width + 2 * MARGIN, height: head.height + svg.height.baseVal.value + 2 * MARGIN };
  const picture = draw("g", { transform: `translate(0 ${head.height})` }, ...copy.childNodes);
  const ground = { width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor };
  copy.append(draw("rect", ground), draw("g", { transform: `translate(${MARGIN} ${MARGIN})` }, ...head.marks, picture));
  for (const [name, value] of Object.entries(size)) copy.setAttribute(name, value);
  copy.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
  return { text: new XMLSerializer().serializeToString(copy), ...size };
}

// The title, and below it the legend in as many lines as it takes.
function headOf(figure, width) {
  const style = getComputedStyle(figure.querySelector("svg text"));
  const words = (text, x, y, weight) => draw("text", {
    x, y, fill: style.fill, "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": weight,
  }, text);
  const title = figure.querySelector("figcaption b").textContent.trim();
  const marks = [words(title, 0, SWATCH, "bold")];
  let [widest, left, top] = [Math.max(width, title.length * CHAR), 0, SWATCH];
  for (const key of figure.querySelectorAll(".key")) {
    const text = key.textContent.trim();
    const wide = SWATCH + 6 + text.length * CHAR;
    if (!left || left + wide > widest) [left, top] = [0, top + LINE];
    const ink = getComputedStyle(key.querySelector("i"));
    const square = { x: left + 0.5, y: top - SWATCH + 1.5, width: SWATCH - 1, height: SWATCH - 1 };
    marks.push(draw("rect", { ...square, fill: ink.backgroundColor, stroke: ink.borderTopColor }));
    marks.push(words(text, left + SWATCH + 6, top, "normal"));
    widest = Math.max(widest, left + wide);
    left += wide + BETWEEN;
  }
  return { marks, width: widest, height: top + LINE - SWATCH };
}

function pngOf({ text, width, height }) {
  return new Promise((done, failed) => {
    const image = new Image();
    image.onerror = () => failed(new Error("the picture cannot be drawn"));
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = width * PNG_SCALE;
      canvas.height = height * PNG_SCALE;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(done, "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  });
}

const savers = {
  SVG: async (picture, name) => download(name + ".svg", "image/svg+xml", picture.text),
  PNG: async (picture, name) => download(name + ".png", "image/png", await pngOf(picture)),
};

for (const figure of document.querySelectorAll("figure.chart")) {
  const title = figure.querySelector("figcaption b").textContent.trim();
  const buttons = Object.entries(savers).map(([kind, save]) => {
    const press = () => save(standalone(figure), title.toLowerCase().replace(/[^a-z0-9]+/g, "-"));
    return make("button", { type: "button", "aria-label": `Save as ${kind}: ${title}`, onclick: press }, `Save as ${kind}`);
  });
  figure.querySelector(":scope > details").before(make("p", { class: "saves" }, buttons[0], " ", buttons[1]));
}
