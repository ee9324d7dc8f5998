// The explorer on the whole screen; where the browser has no such thing or refuses it, in the whole window.

function fullScreenButton(frame, changed) {
  const button = pressable("Full screen", "Full screen", () => (isFull() ? leave() : enter()));
  const isFull = () => document.fullscreenElement === frame || frame.classList.contains("filled");
  const update = () => {
    button.textContent = isFull() ? "Leave full screen" : "Full screen";
    button.setAttribute("aria-label", button.textContent);
    button.title = isFull() ? "Leave full screen (Escape)" : "Full screen";
    changed();
  };
  const fill = (filled) => { frame.classList.toggle("filled", filled); update(); };
  const enter = () => {
    const asked = frame.requestFullscreen?.();
    if (asked) asked.catch(() => fill(true)); else fill(true);
  };
  const leave = () => (document.fullscreenElement ? document.exitFullscreen() : fill(false));
  document.addEventListener("fullscreenchange", update);
  frame.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isFull()) return;
    event.stopPropagation();
    event.preventDefault();
    leave();
  }, true);
  return button;
}
