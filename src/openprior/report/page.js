// What the page can do beyond being read: theme, tooltips, walking charts by keyboard, sorting, finding.
(() => {
  "use strict";
  const root = document.documentElement;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  root.classList.add("scripted");

  // The theme is the system's until the button is pressed.
  const button = document.getElementById("theme");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const say = () => {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
    button.setAttribute("aria-pressed", String(isDark()));
  };
  button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; say(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", say);
  say();

  // Tooltips: a shape's title, moved to its label so that the browser does not show it twice.
  const tooltip = document.getElementById("tooltip");
  const hide = () => { tooltip.hidden = true; };
  const show = (shape) => {
    tooltip.textContent = shape.getAttribute("aria-label");
    tooltip.hidden = false;
    const box = shape.getBoundingClientRect(), own = tooltip.getBoundingClientRect();
    const x = Math.min(Math.max(8, box.left + box.width / 2 - own.width / 2), root.clientWidth - own.width - 8);
    const y = box.top - own.height - 8 < 0 ? box.bottom + 8 : box.top - own.height - 8;
    tooltip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
  };
  for (const shape of all("g.tip")) {
    const title = shape.querySelector("title");
    shape.setAttribute("role", "img");
    shape.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  const tipOf = (event) => event.target.closest ? event.target.closest("g.tip") : null;
  document.addEventListener("pointerover", (event) => { const shape = tipOf(event); if (shape) show(shape); else hide(); });
  document.addEventListener("focusin", (event) => { const shape = tipOf(event); if (shape) show(shape); else hide(); });
  // A shape that gets the focus may scroll into view; its tooltip goes with it.
  const follow = () => {
    if (tooltip.hidden) return;
    const focused = document.activeElement.closest("g.tip");
    if (focused && focused.getAttribute("aria-label") === tooltip.textContent) show(focused); else hide();
  };
  addEventListener("scroll", follow, { capture: true, passive: true });
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  // A chart is one stop of the Tab key; arrows go from shape to shape, and in a map up and down as well.
  for (const chart of all("svg[data-walk]")) {
    const shapes = all("g.tip", chart);
    shapes.forEach((shape, i) => shape.setAttribute("tabindex", i ? "-1" : "0"));
    chart.addEventListener("keydown", (event) => {
      const from = shapes.indexOf(event.target);
      if (from < 0) return;
      const to = chart.dataset.walk === "xy" ? inTriangle(from, event.key) : inLine(from, event.key);
      const next = event.key === "Home" ? 0 : event.key === "End" ? shapes.length - 1 : to;
      if (next === null) return;
      event.preventDefault();
      if (!shapes[next]) return;
      shapes[from].setAttribute("tabindex", "-1");
      shapes[next].setAttribute("tabindex", "0");
      shapes[next].focus();
    });
  }
  function inLine(from, key) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    return step ? from + step : null;
  }
  function inTriangle(from, key) {
    const row = Math.floor((Math.sqrt(8 * from + 1) - 1) / 2), column = from - (row * (row + 1)) / 2;
    const place = (r, c) => (c < 0 || c > r ? -1 : (r * (r + 1)) / 2 + c);
    return {
      ArrowRight: place(row, column + 1), ArrowLeft: place(row, column - 1),
      ArrowUp: place(row - 1, column), ArrowDown: place(row + 1, column),
    }[key] ?? null;
  }

  // Sorting by a click on a header: numbers large first, texts from A.
  for (const table of all("table.sortable")) {
    all("th", table).forEach((head, column) => {
      if (head.classList.contains("plot")) return;
      // Not a button element: browsers leave those out where a header is repeated on the next printed page.
      const press = document.createElement("span");
      press.setAttribute("role", "button");
      press.tabIndex = 0;
      press.append(...head.childNodes);
      head.append(press);
      press.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        press.click();
      });
      press.addEventListener("click", () => {
        const number = head.classList.contains("n");
        const upward = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") === "descending" : !number;
        all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", upward ? "ascending" : "descending");
        const value = (row) => {
          const cell = row.cells[column], text = cell.dataset.v ?? cell.textContent.trim();
          if (!number) return text;
          const found = parseFloat(text.replaceAll(",", ""));
          return Number.isNaN(found) ? -Infinity : found;
        };
        const body = table.tBodies[0], rows = [...body.rows].map((row) => [value(row), row]);
        rows.sort(([a], [b]) => (number ? (a === b ? 0 : a - b) : a.localeCompare(b, undefined, { numeric: true })));
        body.append(...(upward ? rows : rows.reverse()).map(([, row]) => row));
      });
    });
  }

  // Finding: every word must occur.
  for (const input of all("input[data-filter]")) {
    const items = all(input.dataset.filter).map((item) => [item, (item.dataset.text ?? item.textContent).toLowerCase()]);
    const status = input.parentElement.querySelector("[role=status]");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const [item, text] of items) {
        item.hidden = !words.every((word) => text.includes(word));
        shown += !item.hidden;
      }
      status.textContent = words.length ? `${shown} of ${items.length}` : "";
    });
  }

  // The contents list says where the reader is.
  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link, id) => (id === entry.target.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current")));
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  all("main > section").forEach((section) => watcher.observe(section));
})();
