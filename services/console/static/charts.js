// Charts by keyboard and pointer: arrows between columns, a tip, a brushed time. Optional.
"use strict";

afterPaint(() => {
  const TIP_GAP_PX = 12;
  const tip = document.createElement("p");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  const columnOf = (node) => (node instanceof Element ? node.closest("a.col") : null);
  const columnsOf = (canvas) => [...canvas.querySelectorAll("a.col")];

  // One stop of the Tab key for each chart; the title becomes the label, beside which our tip is.
  const prepare = (within) => {
    for (const canvas of within.querySelectorAll("svg.canvas")) {
      const columns = columnsOf(canvas);
      const current = columns.find((column) => column === document.activeElement) ?? columns.at(-1);
      for (const column of columns) {
        column.setAttribute("tabindex", column === current ? "0" : "-1");
        const title = column.querySelector("title");
        if (title !== null) {
          column.setAttribute("aria-label", title.textContent);
          title.remove();
        }
      }
    }
  };

  const point = (column, x) => {
    const box = column.getBoundingClientRect();
    tip.textContent = column.getAttribute("aria-label");
    tip.hidden = false;
    const left = (x ?? box.left + box.width / 2) - tip.offsetWidth / 2;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 4))}px`;
    const above = box.top - tip.offsetHeight - TIP_GAP_PX;
    tip.style.top = `${above > 0 ? above : box.bottom + TIP_GAP_PX}px`;
  };
  const unpoint = () => (tip.hidden = true);

  document.addEventListener("pointerover", (event) => {
    const column = columnOf(event.target);
    return column === null ? unpoint() : point(column, event.clientX);
  });
  document.addEventListener("focusin", (event) => {
    const column = columnOf(event.target);
    return column === null ? unpoint() : point(column);
  });
  addEventListener("scroll", unpoint, { passive: true });

  document.addEventListener("keydown", (event) => {
    const column = columnOf(event.target);
    if (column === null) {
      return;
    }
    const columns = columnsOf(column.closest("svg.canvas"));
    const at = columns.indexOf(column);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: columns.length - 1 }[event.key];
    if (event.key === "Escape") {
      unpoint();
    }
    if (to === undefined || columns[to] === undefined) {
      return;
    }
    event.preventDefault();
    column.setAttribute("tabindex", "-1");
    columns[to].setAttribute("tabindex", "0");
    columns[to].focus();
  });

  let brushed = null; // from which column, in which canvas
  const span = (canvas, one, other) => {
    const columns = columnsOf(canvas);
    const [first, last] = [columns.indexOf(one), columns.indexOf(other)].sort((a, b) => a - b);
    return columns.slice(first, last + 1);
  };
  const choose = (canvas, chosen) => {
    for (const column of columnsOf(canvas)) {
      column.classList.toggle("chosen", chosen.includes(column));
    }
  };
  document.addEventListener("dragstart", (event) => columnOf(event.target) && event.preventDefault());
  document.addEventListener("pointerdown", (event) => {
    const column = columnOf(event.target);
    const canvas = column?.closest("svg[data-brush]");
    brushed = canvas && event.button === 0 ? { canvas, column, end: column } : null;
  });
  document.addEventListener("pointermove", (event) => {
    const column = columnOf(event.target);
    if (brushed !== null && column !== null && brushed.canvas.contains(column)) {
      brushed.end = column;
      choose(brushed.canvas, column === brushed.column ? [] : span(brushed.canvas, brushed.column, column));
    }
  });
  document.addEventListener("pointerup", () => {
    if (brushed !== null && brushed.end !== brushed.column) {
      const chosen = span(brushed.canvas, brushed.column, brushed.end);
      const query = new URLSearchParams({ from: chosen[0].dataset.from, to: chosen.at(-1).dataset.to });
      document.addEventListener("click", (event) => event.preventDefault(), { capture: true, once: true });
      location.assign(`${brushed.canvas.dataset.brush}?${query}`);
    }
    brushed = null;
  });

  document.addEventListener("fresh", (event) => prepare(event.target));
  prepare(document);
});
