// What of the drawing the stage shows: moves with the pointer, zooms, fits.

const ZOOM_STEP = 1.3;
const ROOM = 16;
const READABLE = 0.7;  // from this scale on, the shapes on edges can be read

class Camera {
  constructor(stage, layer) {
    Object.assign(this, { stage, layer, x: 0, y: 0, scale: 1, dragged: false });
    stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;  // a plain wheel scrolls the page
      event.preventDefault();
      const frame = stage.getBoundingClientRect();
      this.zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.clientX - frame.left, event.clientY - frame.top);
    }, { passive: false });
    let from = null;
    stage.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = { x: event.clientX - this.x, y: event.clientY - this.y, startX: event.clientX, startY: event.clientY };
      this.dragged = false;
    });
    stage.addEventListener("pointermove", (event) => {
      if (!from) return;
      if (!this.dragged && Math.hypot(event.clientX - from.startX, event.clientY - from.startY) < 5) return;
      if (!this.dragged) stage.setPointerCapture(event.pointerId);
      this.dragged = true;
      stage.classList.add("dragging");
      this.moveTo(event.clientX - from.x, event.clientY - from.y);
    });
    const drop = () => { from = null; stage.classList.remove("dragging"); setTimeout(() => { this.dragged = false; }, 0); };
    stage.addEventListener("pointerup", drop);
    stage.addEventListener("pointercancel", drop);
  }

  moveTo(x, y, scale = this.scale) {
    Object.assign(this, { x, y, scale });
    this.layer.setAttribute("transform", `translate(${x} ${y}) scale(${scale})`);
    this.stage.classList.toggle("readable", scale >= READABLE);
  }

  zoom(factor, x = this.stage.clientWidth / 2, y = this.stage.clientHeight / 2) {
    const scale = Math.min(3, Math.max(Math.min(0.05, this.scale), this.scale * factor));
    const grown = scale / this.scale;
    this.moveTo(x - (x - this.x) * grown, y - (y - this.y) * grown, scale);
  }

  // The whole drawing; with a `least` scale its top, as wide as leaves text readable.
  fit(drawing, least = 0) {
    const { clientWidth: width, clientHeight: height } = this.stage;
    const wide = (width - 2 * ROOM) / drawing.width;
    const high = (height - 2 * ROOM) / drawing.height;
    const scale = Math.max(least, Math.min(1, wide, least && high < 0.8 ? 1 : high));
    this.moveTo((width - drawing.width * scale) / 2, least ? ROOM : (height - drawing.height * scale) / 2, scale);
  }

  // Where a frame of the drawing is in the stage.
  onStage({ x, y, width, height }) {
    const { scale } = this;
    return { x: this.x + x * scale, y: this.y + y * scale, width: width * scale, height: height * scale };
  }

  shows(frame) {
    const { x, y, width, height } = this.onStage(frame);
    return x + width > 0 && y + height > 0 && x < this.stage.clientWidth && y < this.stage.clientHeight;
  }

  bringIn(frame) {
    const { x, y, width, height } = this.onStage(frame);
    const { clientWidth, clientHeight } = this.stage;
    const by = (start, size, room) => (
      start < 0 ? 20 - start : start + size > room ? -Math.min(start + size - room + 20, start - 20) : 0);
    this.moveTo(this.x + by(x, width, clientWidth), this.y + by(y, height, clientHeight));
  }

  centre(frame) {
    if (this.scale < 0.6) this.scale = 0.9;
    const { x, y, width, height } = this.onStage(frame);
    const { clientWidth, clientHeight } = this.stage;
    this.moveTo(this.x + clientWidth / 2 - (x + width / 2), this.y + clientHeight / 2 - (y + Math.min(height, clientHeight) / 2));
  }
}
