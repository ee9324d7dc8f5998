// Saving a picture: the drawing with its inks written into it, as SVG or drawn into a canvas as PNG.

const DRAWN_STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "text-anchor"];
const PNG_SCALE = 2;

function standalone(svg) {
  const copy = svg.cloneNode(true);
  const drawn = [...svg.querySelectorAll("rect, path, text")];
  [...copy.querySelectorAll("rect, path, text")].forEach((mark, at) => {
    const style = getComputedStyle(drawn[at]);
    for (const name of DRAWN_STYLES) mark.setAttribute(name, style.getPropertyValue(name));
    mark.removeAttribute("class");
  });
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

function pngOf(svg) {
  return new Promise((done, failed) => {
    const image = new Image();
    image.onerror = () => failed(new Error("the picture cannot be drawn"));
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = svg.width.baseVal.value * PNG_SCALE;
      canvas.height = svg.height.baseVal.value * PNG_SCALE;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(done, "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(standalone(svg));
  });
}

const savers = {
  SVG: async (svg, name) => download(name + ".svg", "image/svg+xml", standalone(svg)),
  PNG: async (svg, name) => download(name + ".png", "image/png", await pngOf(svg)),
};

for (const figure of document.querySelectorAll("figure.chart")) {
  const svg = figure.querySelector("svg");
  const title = figure.querySelector("figcaption b").textContent.trim();
  const buttons = Object.entries(savers).map(([kind, save]) => {
    const press = () => save(svg, title.toLowerCase().replace(/[^a-z0-9]+/g, "-"));
    return make("button", { type: "button", "aria-label": `Save as ${kind}: ${title}`, onclick: press }, `Save as ${kind}`);
  });
  figure.querySelector(":scope > details").before(make("p", { class: "saves" }, buttons[0], " ", buttons[1]));
}
