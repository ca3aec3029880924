// Live parts of a page are loaded again every few seconds; without this file, reloading does it.
"use strict";

(() => {
  const PERIOD_MS = 2000;
  const button = document.getElementById("pause");
  const isLive = document.querySelector("main [data-live]") !== null;
  let paused = false;

  const isInUse = (part) => {
    const chosen = document.getSelection();
    return (
      part.contains(document.activeElement) ||
      (chosen !== null && !chosen.isCollapsed && part.contains(chosen.anchorNode))
    );
  };

  const update = (fresh) => {
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (next !== null && next.innerHTML !== part.innerHTML && !isInUse(part)) {
        part.replaceChildren(...next.childNodes);
      }
    }
  };

  const load = async () => {
    const response = await fetch(location.href, { credentials: "same-origin" });
    if (response.redirected) {
      location.reload(); // the session has ended
      return;
    }
    update(new DOMParser().parseFromString(await response.text(), "text/html"));
  };

  const turn = async () => {
    if (!paused && !document.hidden) {
      await load().catch(() => undefined); // the console is away: the next turn tries again
    }
    setTimeout(turn, PERIOD_MS);
  };

  if (isLive && button !== null) {
    button.hidden = false;
    button.addEventListener("click", () => {
      paused = !paused;
      button.setAttribute("aria-pressed", String(paused));
    });
    setTimeout(turn, PERIOD_MS);
  }

  const all = document.getElementById("choose-all");
  if (all !== null) {
    all.closest("label").hidden = false;
    all.addEventListener("change", () => {
      for (const box of document.querySelectorAll("input[name=id]")) {
        box.checked = all.checked;
      }
    });
  }
})();
