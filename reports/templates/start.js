// Unpacks the page's program and runs it: packed, it is two fifths as large.  The policy names the hash of both.
"use strict";

const DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~";

// Five digits are four bytes; at the end one digit more than bytes.
function fromBase85(text) {
  const bytes = new Uint8Array(Math.floor(text.length * 4 / 5));
  const values = new Uint8Array(128).fill(84);
  [...DIGITS].forEach((digit, value) => { values[digit.charCodeAt(0)] = value; });
  for (let at = 0, to = 0; at < text.length; at += 5) {
    let number = 0;
    for (let step = 0; step < 5; step++) number = number * 85 + (at + step < text.length ? values[text.charCodeAt(at + step)] : 84);
    for (let shift = 24; shift >= 0 && to < bytes.length; shift -= 8) bytes[to++] = number >>> shift;
  }
  return bytes;
}

async function unpackText(element) {
  const text = element.textContent.trim();
  if (element.dataset.encoding !== "gzip-base85") return text;
  const stream = new Blob([fromBase85(text)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

unpackText(document.getElementById("program")).then((text) => {
  const script = document.createElement("script");
  script.textContent = text;
  document.body.append(script);
});
