"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // Commands are copied with a button; without a script they are selected with a click.
  const copy = async (code, button) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code);
      document.execCommand("copy");
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  for (const command of document.querySelectorAll(".cmd")) {
    const code = command.querySelector("code");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", `Copy ${code.textContent}`);
    button.addEventListener("click", () => copy(code, button));
    command.append(button);
  }

  // Tables are sorted by their heads. Buttons are made when a table is first seen: there may be hundreds.
  const value = (row, at) => {
    const cell = row.cells[at];
    const text = cell ? cell.textContent.trim() : "";
    const number = parseFloat(text.replaceAll(",", "").replace(/^[×+]/, ""));
    return Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => typeof a === typeof b
    ? (typeof a === "number" ? a - b : a.localeCompare(b)) : (typeof a === "number" ? -1 : 1);
  const sort = (table, head) => {
    const up = head.getAttribute("aria-sort") === "descending" || (!head.hasAttribute("aria-sort") && !head.classList.contains("n"));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [value(row, head.cellIndex), row]);
    rows.sort(([a], [b]) => (up ? 1 : -1) * compare(a, b));
    body.append(...rows.map(([, row]) => row));
  };
  const prepare = (inside) => {
    for (const table of inside.querySelectorAll("table.sort:not([data-ready])")) {
      if (!table.checkVisibility()) continue;
      table.dataset.ready = "";
      for (const head of table.tHead.querySelectorAll("th")) {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...head.childNodes);
        button.addEventListener("click", () => sort(table, head));
        head.append(button);
      }
    }
  };
  prepare(document);
  document.addEventListener("toggle", (event) => prepare(event.target), true);

  // What is filtered is in the address, "#matrix&text=conv&verdict=FU&column=3", so that it can be sent to others.
  const form = byId("filters");
  if (!form) return;
  const grid = byId("grid");
  const text = byId("filter-text");
  const column = byId("filter-column");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const rows = [...grid.tBodies[0].rows];
  const names = rows.map((row) => row.cells[0].textContent.toLowerCase());
  const most = 60;  // rows of a matrix that is not asked about; those with something to look at come first
  const every = byId("all-rows");
  let hidden = 0;
  let all = rows.length <= most + 20;

  const show = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const letters = boxes.filter((box) => box.checked).map((box) => box.value);
    const at = Number(column.value);
    let count = 0;
    rows.forEach((row, number) => {
      const cell = at ? row.cells[at] : null;
      const has = cell ? cell.className : row.dataset.l;
      const fits = words.every((word) => names[number].includes(word)) &&
        (letters.length ? letters.some((letter) => has.includes(letter)) : !cell || cell.className !== "");
      row.hidden = !fits;
      row.classList.toggle("rest", !all && !words.length && !letters.length && !at && number >= (row.classList.contains("look") ? 4 * most : most));
      count += fits ? 1 : 0;
    });
    every.hidden = !grid.querySelector(".rest");
    if (at !== hidden) {
      for (const row of [grid.tHead.rows[0], ...rows]) {
        [...row.cells].forEach((cell, number) => {
          cell.hidden = at !== 0 && number > 0 && number !== at && number <= column.options.length - 1;
        });
      }
      hidden = at;
    }
    byId("filter-count").textContent = count === rows.length ? "" : `${count} of ${rows.length} rows`;
  };
  const keep = () => {
    const state = new URLSearchParams();
    const letters = boxes.filter((box) => box.checked).map((box) => box.value).join("");
    if (text.value.trim()) state.set("text", text.value.trim());
    if (letters) state.set("verdict", letters);
    if (column.value) state.set("column", column.value);
    const told = state.toString();
    history.replaceState(null, "", told ? `#matrix&${told}` : "#matrix");
  };
  const read = () => {
    if (!location.hash.startsWith("#matrix&")) return;
    const state = new URLSearchParams(location.hash.slice("#matrix&".length));
    text.value = state.get("text") ?? "";
    const letters = state.get("verdict") ?? "";
    for (const box of boxes) box.checked = letters.includes(box.value);
    const wanted = state.get("column") ?? "";
    column.value = [...column.options].some((option) => option.value === wanted) ? wanted : "";
    show();
    byId("matrix").scrollIntoView();
  };
  form.hidden = false;
  every.firstElementChild.addEventListener("click", () => { all = true; show(); });
  show();
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { show(); keep(); });
  addEventListener("hashchange", read);
  read();
})();
