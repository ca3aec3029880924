// First of the three files that are joined as scripts.js.
"use strict";

// What they do is no part of the first paint, which would wait for it.
const afterPaint = (start) => {
  if (document.hidden) {
    start(); // nothing is painted of a page that is hidden
  } else {
    requestAnimationFrame(() => setTimeout(start));
  }
};

// Choosing all letters of a page at once; without scripts, one chooses them one by one.
afterPaint(() => {
  const all = document.getElementById("choose-all");
  if (all !== null) {
    all.closest("label").hidden = false;
    all.addEventListener("change", () => {
      for (const box of document.querySelectorAll("input[name=id]")) {
        box.checked = all.checked;
      }
    });
  }
});

// Shortcuts, the list of places, and what the browser alone knows; without it, all pages work.
afterPaint(() => {
  const YEAR_S = 31536000;
  const NEXT_MS = 1500; // between the keys of one shortcut
  const KEPT = "answerbus-one-key";

  // The server writes times in this zone, too.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  document.cookie = `answerbus_zone=${zone};path=/;max-age=${YEAR_S};samesite=strict`;

  // Title and icon follow the status, which is loaded again and again.
  const status = document.getElementById("status");
  const title = document.title.replace(/^Red: .*? · /, "");
  const follow = () => {
    const shown = status.querySelector("[data-level]");
    if (shown === null) {
      return;
    }
    const { level, headline, icon } = shown.dataset;
    status.className = `status ${level}`;
    document.getElementById("icon").href = icon;
    document.title = level === "red" ? `Red: ${headline} · ${title}` : title;
  };
  if (status !== null) {
    new MutationObserver(follow).observe(status, { childList: true, subtree: true });
  }

  const palette = document.getElementById("palette");
  if (palette === null) {
    return; // no one is logged in
  }
  const text = document.getElementById("palette-text");
  const oneKey = document.getElementById("one-key");
  oneKey.checked = localStorage.getItem(KEPT) !== "no";
  oneKey.addEventListener("change", () => localStorage.setItem(KEPT, oneKey.checked ? "yes" : "no"));

  const places = () => [...palette.querySelectorAll("li")].filter((place) => !place.hidden);
  const narrow = () => {
    const wanted = text.value.trim().toLowerCase();
    for (const place of palette.querySelectorAll("li")) {
      place.hidden = !place.textContent.toLowerCase().includes(wanted);
    }
  };
  const open = () => {
    if (!palette.open) {
      text.value = "";
      narrow();
      palette.showModal();
      text.focus();
    }
  };
  text.addEventListener("input", narrow);
  palette.addEventListener("keydown", (event) => {
    const links = places().map((place) => place.querySelector("a"));
    const at = links.indexOf(document.activeElement);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined && links.length > 0) {
      event.preventDefault();
      (links[at + step] ?? (step > 0 ? links[0] : text)).focus();
    } else if (event.key === "Enter" && document.activeElement === text && links.length > 0) {
      if (text.value.trim() !== "") {
        event.preventDefault();
        links[0].click();
      }
    }
  });
  document.getElementById("palette-close").addEventListener("click", () => palette.close());
  const button = document.getElementById("shortcuts");
  button.hidden = false;
  button.addEventListener("click", open);

  const rows = () => [...document.querySelectorAll("main tbody a, main .timeline summary")];
  const move = (step) => {
    const all = rows();
    const at = all.indexOf(document.activeElement);
    all[at < 0 ? (step > 0 ? 0 : all.length - 1) : at + step]?.focus();
  };
  const ACTS = {
    "/": open,
    s: () => (status.querySelector("a, summary") ?? document.getElementById("main")).focus(),
    n: () => document.querySelector("[data-next]")?.focus(),
    f: () => document.querySelector(".filters input[type=search]")?.focus(),
    j: () => move(1),
    k: () => move(-1),
  };
  const PLACES = new Map(
    [...palette.querySelectorAll("kbd + kbd")].map((key) => [key.textContent, key.closest("a")]),
  );
  let leader = 0; // when `g` was pressed

  document.addEventListener("keydown", (event) => {
    const at = event.target;
    const types = at.closest("input:not([type=checkbox]), textarea, select, dialog[open]") !== null;
    if (types || event.ctrlKey || event.metaKey || event.altKey || !oneKey.checked) {
      return;
    }
    const place = Date.now() - leader < NEXT_MS ? PLACES.get(event.key) : undefined;
    leader = event.key === "g" ? Date.now() : 0;
    const act = place ? () => place.click() : ACTS[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
});
