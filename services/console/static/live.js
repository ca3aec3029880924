// Live parts of a page come as server-sent events; without this file, reloading does it.
"use strict";

afterPaint(() => {
  const AGAIN_MS = 5000;
  const SOON_MS = 1000; // a stream begins with the page again, which is new for a while
  const LOOK_MS = 1000;
  const READING_MS = 5000; // for so long after the last move of pointer or key the part is being read
  const OWN = new Set(["open", "tabindex", "data-ready"]); // what readers and scripts have set
  const button = document.getElementById("pause");
  if (button === null || document.querySelector("[data-live][id]") === null) {
    return;
  }
  const held = new Map(); // the newest of each part that waits for its reader
  let source = null;
  let paused = false;
  let isOver = false; // another page took the place of this one
  let moved = 0;
  for (const kind of ["pointermove", "pointerdown", "keydown", "wheel"]) {
    document.addEventListener(kind, () => (moved = Date.now()), { passive: true });
  }

  const isInUse = (part) => {
    const chosen = document.getSelection();
    if (chosen !== null && !chosen.isCollapsed && part.contains(chosen.anchorNode)) {
      return true;
    }
    const isThere = part.matches(":hover") || part.contains(document.activeElement);
    return isThere && Date.now() - moved < READING_MS;
  };

  const keyOf = (node) => node.dataset?.key ?? node.id ?? "";

  const patchAttributes = (from, to) => {
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !OWN.has(name)) {
        from.removeAttribute(name);
      }
    }
    for (const { name, value } of to.attributes) {
      if (from.getAttribute(name) !== value && !(OWN.has(name) && from.hasAttribute(name))) {
        from.setAttribute(name, value);
      }
    }
  };

  const isSame = (from, to) => from.nodeName === to.nodeName && keyOf(from) === keyOf(to);

  const patchChildren = (from, to) => {
    const keyed = new Map();
    for (const child of from.children) {
      if (keyOf(child) !== "") {
        keyed.set(keyOf(child), child);
      }
    }
    let at = from.firstChild;
    for (const next of [...to.childNodes]) {
      const known = keyed.get(keyOf(next));
      if (known !== undefined && known !== at) {
        from.insertBefore(known, at);
        at = known;
      }
      if (at !== null && isSame(at, next)) {
        patch(at, next);
        at = at.nextSibling;
      } else {
        from.insertBefore(next, at);
      }
    }
    while (at !== null) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  };

  const patch = (from, to) => {
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.data !== to.data) {
        from.data = to.data;
      }
      return;
    }
    patchAttributes(from, to);
    patchChildren(from, to);
  };

  const show = (part, html) => {
    const page = new DOMParser().parseFromString(`<div>${html}</div>`, "text/html");
    patchChildren(part, page.body.firstChild);
    part.dispatchEvent(new CustomEvent("fresh", { bubbles: true }));
  };

  const look = () => {
    for (const [id, html] of held) {
      const part = document.getElementById(id);
      if (part === null || (!paused && !isInUse(part))) {
        held.delete(id);
        if (part !== null) {
          show(part, html);
        }
      }
    }
    button.classList.toggle("waits", held.size > 0);
    button.title = held.size > 0 ? "Updates wait while you read, select or pause" : "";
  };

  const connect = () => {
    source = new EventSource(location.href);
    source.addEventListener("parts", (event) => {
      for (const [id, html] of Object.entries(JSON.parse(event.data))) {
        held.set(id, html);
      }
      look();
    });
    source.addEventListener("over", () => {
      isOver = true;
      source.close();
      source = null;
      button.textContent = "Not live: too many pages are open. Reload";
      button.classList.add("waits");
    });
    source.addEventListener("error", () => {
      if (source !== null && source.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(again, AGAIN_MS);
      }
    });
  };

  const again = async () => {
    if (source !== null || document.hidden) {
      return;
    }
    const response = await fetch(location.href, { method: "HEAD" }).catch(() => null);
    if (response?.redirected) {
      location.reload(); // the session has ended
    } else if (response?.ok) {
      connect();
    } else {
      setTimeout(again, AGAIN_MS);
    }
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close(); // a browser has six connections for all of its tabs
      source = null;
    } else if (source === null && !isOver) {
      connect();
    }
  });
  addEventListener("pagehide", () => source?.close());

  button.hidden = false;
  button.addEventListener("click", () => {
    if (isOver) {
      location.reload();
      return;
    }
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
    look();
  });
  setInterval(look, LOOK_MS);
  setTimeout(() => {
    if (source === null && !document.hidden) {
      connect();
    }
  }, SOON_MS);
});
