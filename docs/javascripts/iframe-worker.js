// Lets the site's search run where it is read from a disk: browsers start no worker from a file: address, so the
// script of one runs in a frame of its own. The site's theme looks for the name of this file.
"use strict";
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #ready;

    constructor(address) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      // What a worker calls to answer is its own global function, which in a frame means something else.
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.#ready = new Promise((ready, failed) => {
        const script = inside.document.createElement("script");
        script.src = new URL(address, location.href).href;
        script.onload = ready;
        script.onerror = () => failed(new Error(`cannot load ${address}`));
        inside.document.body.append(script);
      });
    }

    postMessage(data) {
      const inside = this.#frame.contentWindow;
      this.#ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
