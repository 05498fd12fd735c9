(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;

  // Theme: the system's until the reader chooses.
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const showTheme = () => {
    button.textContent = "Dark theme";
    button.setAttribute("aria-pressed", String(isDark()));
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    showTheme();
  });
  system.addEventListener("change", showTheme);
  showTheme();

  // One box of text that follows the pointer or stands by a word; it is filled as text, never as HTML.
  const tip = document.getElementById("tip");
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x + 14), innerWidth - box.width - 8);
    const above = y - box.height - 12;
    tip.style.left = `${left}px`;
    tip.style.top = `${above < 8 ? y + 18 : above}px`;
  };
  const hide = () => { tip.hidden = true; };
  const show = (fill, x, y) => {
    tip.replaceChildren();
    fill(tip);
    tip.hidden = false;
    place(x, y);
  };
  const put = (parent, element, text, name) => {
    const child = document.createElement(element);
    child.textContent = text;
    if (name) child.className = name;
    parent.append(child);
    return child;
  };

  // Hovering a mark shows its row of the table of numbers.
  const origin = new WeakMap();
  all("figure.chart table tbody").forEach((body) => origin.set(body, [...body.rows]));
  const nearest = (plot, event) => {
    const row = event.target.closest(".r");
    if (row) return row;
    let best = null, distance = Infinity;
    all(".xy [data-i]", plot).forEach((mark) => {
      const box = mark.getBoundingClientRect();
      if (!box.width && !box.height) return;
      const dx = event.clientX - (box.left + box.right) / 2;
      const dy = (event.clientY - (box.top + box.bottom) / 2) / 50;
      const d = dx * dx + dy * dy;
      if (d < distance) [best, distance] = [mark, d];
    });
    return best;
  };
  all("figure.chart").forEach((figure) => {
    const plot = figure.querySelector(".plot"), table = figure.querySelector("table");
    if (!table) return;
    let on = null;
    const leave = () => {
      if (on) on.classList.remove("on");
      on = null;
      hide();
    };
    plot.addEventListener("pointermove", (event) => {
      const mark = nearest(plot, event);
      if (mark !== on) {
        leave();
        on = mark;
        if (mark) mark.classList.add("on");
      }
      if (!mark) return;
      const row = origin.get(table.tBodies[0])[Number(mark.dataset.i)];
      const headings = all("thead th", table).map((h) => h.textContent);
      show((box) => {
        const list = document.createElement("dl");
        [...row.cells].forEach((cell, j) => {
          put(list, "dt", headings[j]);
          put(list, "dd", cell.textContent);
        });
        box.append(list);
      }, event.clientX, event.clientY);
    });
    plot.addEventListener("pointerleave", leave);
  });

  // Words of the glossary: on hover, focus and touch; Escape puts them away.
  const explain = (word) => {
    const entry = document.getElementById(word.getAttribute("aria-describedby"));
    if (!entry) return;
    const box = word.getBoundingClientRect();
    show((t) => put(t, "p", entry.textContent), box.left - 14, box.top);
  };
  all("[aria-describedby]").forEach((word) => {
    word.addEventListener("pointerenter", () => explain(word));
    word.addEventListener("pointerleave", hide);
    word.addEventListener("focus", () => explain(word));
    word.addEventListener("click", () => explain(word));
    word.addEventListener("blur", hide);
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, { passive: true });

  // Order, measure and chosen names of one chart: rows are moved and hidden, nothing is drawn again.
  const descending = new Set(["value", "gap", "logged"]);
  const name = (row) => row.firstElementChild.textContent;
  const arrange = (figure) => {
    const off = new Set(all('.chip[aria-pressed="false"]', figure).map((c) => c.textContent));
    const order = figure.querySelector('[data-role="order"]')?.value;
    const measure = figure.querySelector('[data-role="measure"]')?.value;
    if (measure) all(".measure", figure).forEach((m) => { m.hidden = !m.classList.contains(measure); });
    const sign = descending.has(order) ? -1 : 1;
    const key = (row) => Number(row.dataset[order] ?? Infinity * sign);
    all(".g", figure).forEach((group) => {
      const rows = all(".r", group);
      rows.forEach((row) => { row.hidden = off.has(name(row)); });
      rows.sort((a, b) => {
        if (order === "name") return name(a).localeCompare(name(b), undefined, { numeric: true });
        const gap = order ? sign * (key(a) - key(b)) : 0;
        return gap || a.dataset.i - b.dataset.i;
      });
      group.append(...rows);
    });
  };
  all("figure.chart").forEach((figure) => {
    all(".chip", figure).forEach((chip) =>
      chip.addEventListener("click", () => {
        const on = chip.getAttribute("aria-pressed") !== "true";
        const left = all('.chip[aria-pressed="true"]', figure).length;
        if (!on && left === 1) return;
        chip.setAttribute("aria-pressed", String(on));
        arrange(figure);
      }));
    all("select", figure).forEach((choice) => choice.addEventListener("change", () => arrange(figure)));
    arrange(figure);
  });

  // Tables sort by the pressed column: by number where cells show one, else by text.
  const key = (row, column, words) => {
    const cell = row.cells[column];
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent;
    if (column < words) return text;
    const number = parseFloat(text.replace(/,/g, "").replace(/^[−-]/, "-").replace("∞", "Infinity"));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b || 0;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, undefined, { numeric: true });
  };
  all("table.sortable").forEach((table) => {
    const headings = all("thead th", table), words = Number(table.dataset.words);
    headings.forEach((heading, column) =>
      heading.querySelector("button").addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") !== "ascending";
        headings.forEach((h) => h.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((a, b) =>
          (up ? 1 : -1) * compare(key(a, column, words), key(b, column, words)));
        body.append(...rows);
      }));
  });

  // One policy's evidence at a time.
  const picker = document.getElementById("policy");
  const pick = () => {
    const chosen = picker ? picker.value : "0";
    all(".panel[data-policy]").forEach((panel) => { panel.hidden = panel.dataset.policy !== chosen; });
  };
  if (picker) picker.addEventListener("change", pick);
  pick();
  root.dataset.ready = "true";
})();
