// Lets the search work on pages that are opened as files.
//
// A browser starts no worker from a file. There, and only there, this replaces Worker by a
// hidden frame that runs the same script: messages go there and back as to a worker. The
// theme's `offline` plugin would fetch such a script from the network; it leaves that out
// because of this file's name.

class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    this.frame = document.createElement("iframe");
    this.frame.hidden = true;
    document.body.append(this.frame);

    const inside = this.frame.contentWindow;
    this.loaded = new Promise((resolve, reject) => {
      const script = inside.document.createElement("script");
      script.src = new URL(url, location.href).href;
      script.onload = resolve;
      script.onerror = reject;
      // What the script posts comes out of this object.
      inside.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      inside.document.body.append(script);
    });
  }

  // Passes `data` to the script, after it has run for the first time.
  postMessage(data) {
    this.loaded.then(() => {
      const inside = this.frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    });
  }

  // Ends the script.
  terminate() {
    this.frame.remove();
  }
}

if (location.protocol === "file:") {
  window.Worker = FrameWorker;
}
