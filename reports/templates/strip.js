// The strips of engines and PyTorch are links into the graph: one stop of the Tab key each, arrow keys go along.
for (const strip of document.querySelectorAll(".bar-drawing, .strip svg")) {
  walkByArrows([...strip.querySelectorAll("a")], "ArrowLeft", "ArrowRight");
}
