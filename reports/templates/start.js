// Unpacks the page's program and runs it: packed, it is two fifths as large.  The policy names the hash of both.
"use strict";

async function unpackText(element) {
  const text = element.textContent.trim();
  if (element.dataset.encoding !== "gzip-base64") return text;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

unpackText(document.getElementById("program")).then((text) => {
  const script = document.createElement("script");
  script.textContent = text;
  document.body.append(script);
});
