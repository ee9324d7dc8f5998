// What the whole page needs: copy buttons, the download of the JSON report, the jump from a finding to the graph.
"use strict";
document.documentElement.classList.add("js");

async function unpackText(element) {
  const text = element.textContent.trim();
  if (element.dataset.encoding !== "gzip-base64") return text;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

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

document.getElementById("download").addEventListener("click", async () => {
  const text = await unpackText(document.getElementById("machine-json"));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "report.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
