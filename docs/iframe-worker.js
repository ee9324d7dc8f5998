// Search in pages that are opened from the disk: browsers start no worker of a file, so a hidden frame runs its script.
// Source: the interface of Worker, https://html.spec.whatwg.org/multipage/workers.html#dedicated-workers-and-the-worker-interface
(() => {
  if (location.protocol !== "file:") return;
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const load = (source) =>
        new Promise((loaded, failed) => {
          const script = this.inside.document.createElement("script");
          Object.assign(script, { src: source, onload: loaded, onerror: failed });
          this.inside.document.body.append(script);
        });
      this.inside.importScripts = (...sources) => sources.reduce((before, each) => before.then(() => load(each)), Promise.resolve());
      this.ready = load(address);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
})();
