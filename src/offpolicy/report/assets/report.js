(() => {
  "use strict";
  const { config, charts } = JSON.parse(document.getElementById("data").textContent);
  const views = new Map();
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Theme: the system's until the reader chooses.
  const root = document.documentElement;
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

  // Charts are drawn once their place is on the page, and redrawn from their rows.
  const draw = (place) => {
    const spec = charts[place.id];
    if (views.has(place.id) || !spec) return views.get(place.id);
    const drawn = vegaEmbed(place, spec, {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, config,
      tooltip: { disableDefaultStyle: true },
    }).then(({ view }) => {
      const svg = place.querySelector("svg");
      if (svg) svg.setAttribute("aria-hidden", "true");
      place.dataset.drawn = "true";
      return view;
    });
    views.set(place.id, drawn);
    return drawn;
  };
  const isShown = (place) => !place.closest("[hidden]");
  const drawShown = () => Promise.all(all(".plot").filter(isShown).map(draw));

  const redraw = async (place, rows) => {
    const view = await draw(place);
    const step = charts[place.id].usermeta.step;
    if (step) view.height(step * rows.length);
    await view.data("rows", rows).runAsync();
  };

  // Order, measure and chosen names of one chart.
  const descending = new Set(["value", "gap", "logged"]);
  const arranged = (figure, rows) => {
    const hidden = new Set(all('.chip[aria-pressed="false"]', figure).map((c) => c.dataset.name));
    const order = figure.querySelector('[data-role="order"]')?.value;
    const measure = figure.querySelector('[data-role="measure"]')?.value;
    let out = rows.filter((row) => !hidden.has(row.name));
    if (order) {
      const sign = descending.has(order) ? -1 : 1;
      out = [...out].sort((a, b) => {
        if ((a.group ?? 0) !== (b.group ?? 0)) return (a.group ?? 0) - (b.group ?? 0);
        if (a.heading || b.heading) return a.heading ? -1 : 1;
        if (order === "name") return String(a.name).localeCompare(String(b.name), undefined, { numeric: true });
        return sign * ((a[order] ?? Infinity * sign) - (b[order] ?? Infinity * sign));
      });
    }
    // Fresh objects: Vega knows a row again by a mark that it leaves on it.
    const fresh = out.map((row) => Object.fromEntries(Object.entries(row)));
    fresh.forEach((row, rank) => { row.rank = rank; });
    if (measure) fresh.forEach((row) => { row.height = row[measure]; });
    return fresh;
  };
  const refresh = (figure) => {
    const place = figure.querySelector(".plot");
    return redraw(place, arranged(figure, charts[place.id].data.values));
  };
  all("figure.chart").forEach((figure) => {
    all(".chip", figure).forEach((chip) =>
      chip.addEventListener("click", () => {
        const on = chip.getAttribute("aria-pressed") !== "true";
        const left = all('.chip[aria-pressed="true"]', figure).length;
        if (!on && left === 1) return;
        chip.setAttribute("aria-pressed", String(on));
        refresh(figure);
      }));
    all("select", figure).forEach((choice) => choice.addEventListener("change", () => refresh(figure)));
  });

  // Tables sort by the pressed column: by number where cells carry one, else by text.
  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, undefined, { numeric: true });
  };
  all("table.sortable").forEach((table) => {
    const headings = all("thead th", table);
    headings.forEach((heading, column) =>
      heading.querySelector("button").addEventListener("click", () => {
        const up = heading.getAttribute("aria-sort") !== "ascending";
        headings.forEach((h) => h.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", up ? "ascending" : "descending");
        const body = table.tBodies[0];
        const rows = [...body.rows].sort((a, b) => (up ? 1 : -1) * compare(key(a, column), key(b, column)));
        body.append(...rows);
      }));
  });

  // One policy's evidence at a time.
  const picker = document.getElementById("policy");
  const pick = () => {
    const chosen = picker ? picker.value : "0";
    all(".panel").forEach((panel) => { panel.hidden = panel.dataset.policy !== chosen; });
    return drawShown();
  };
  if (picker) picker.addEventListener("change", pick);
  pick().then(() => { root.dataset.ready = "true"; });
})();
