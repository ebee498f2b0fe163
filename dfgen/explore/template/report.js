"use strict";
// All text of the manifest comes as JSON and is shown by textContent: none of it is ever markup.
const data = JSON.parse(document.getElementById("data").textContent);
document.documentElement.style.setProperty("--aspect", data.aspect);
const byId = (id) => document.getElementById(id);

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// -- pictures and tiles

function picture(row, size) {
  if (row.text !== undefined) return element("span", "text", row.text);
  if (!row.picture) {
    const reason = element("span", "reason");
    reason.append(element("b", "", "No picture: "), row.reason);
    return reason;
  }
  const source = `data:image/webp;base64,${row.picture}`;
  const told = [...data.caption, data.name].map((column) => shown(row.values[column])).join(", ");
  const image = row.boxes ? boxed(row, source) : element("img");
  if (Math.max(...row.size) < size) image.classList.add("small-picture");
  if (row.boxes) {
    image.setAttribute("aria-label", told);
  } else {
    image.decoding = "async";
    image.alt = told;
    image.src = source;
  }
  return image;
}

// A picture with boxes is a drawing, so that they lie where they belong, however large it is shown.
function boxed(row, source) {
  const drawn = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const [width, height] = row.size;
  const all = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "boxed" });
  all.append(drawn("image", { href: source, width, height }));
  row.boxes.forEach(([x, y, right, bottom], at) => {
    const box = drawn("rect", { x, y, width: right - x, height: bottom - y });
    const title = drawn("title", {});
    title.textContent = row.labels[at] ?? "";
    box.append(title);
    all.append(box);
  });
  return all;
}

const shown = (value) => (value === null || value === undefined ? "none" : String(value));
// Counts have commas; ids and years have none.
const said = (value, column) =>
  data.columns[column].counts && typeof value === "number" ? value.toLocaleString("en") : shown(value);

function tile(list, position, notes) {
  const row = data.rows[list[position]];
  const button = element("button", "tile");
  button.type = "button";
  const frame = element("span", "picture");
  frame.append(picture(row, 49));
  const caption = element("span", "caption");
  const captions = data.caption.map((column) => said(row.values[column], column)).filter(Boolean);
  if (captions.length) caption.append(element("span", "", captions.join(" · ")));
  caption.append(element("span", captions.length ? "sub" : "", shown(row.values[data.name])));
  if (notes) caption.prepend(element("span", "sub", notes[position]));
  button.append(frame, caption);
  button.addEventListener("click", () => open(list, position, button));
  return button;
}

function fill(box, list, notes) {
  const items = list.map((_, position) => {
    const item = element("li");
    const button = tile(list, position, notes);
    button.tabIndex = position ? -1 : 0;
    item.append(button);
    return item;
  });
  box.replaceChildren(...items);
}

// One tile of a box is in the order of focus; arrow keys move within the box.
function target(buttons, at, key) {
  const top = buttons[0].getBoundingClientRect().top;
  let columns = buttons.findIndex((one) => one.getBoundingClientRect().top > top + 1);
  if (columns < 1) columns = buttons.length;
  const rtl = getComputedStyle(buttons[0]).direction === "rtl" ? -1 : 1;
  const moved = {
    ArrowLeft: at - rtl, ArrowRight: at + rtl, ArrowUp: at - columns, ArrowDown: at + columns,
    Home: 0, End: buttons.length - 1,
  }[key];
  return moved;
}

function onArrow(event) {
  const box = event.currentTarget;
  const buttons = [...box.querySelectorAll(".tile")];
  const at = buttons.indexOf(document.activeElement);
  const to = at < 0 ? undefined : target(buttons, at, event.key);
  if (to === undefined) return;
  event.preventDefault();
  if (!buttons[to]) return;
  focusTile(buttons, to);
}

function focusTile(buttons, at) {
  for (const button of buttons) button.tabIndex = -1;
  buttons[at].tabIndex = 0;
  buttons[at].focus();
}

for (const box of document.querySelectorAll("[data-rows]")) {
  fill(box, JSON.parse(box.dataset.rows), box.dataset.notes && JSON.parse(box.dataset.notes));
  box.addEventListener("keydown", onArrow);
}

// -- the large view

let opened = { list: [], at: 0, from: null };

function open(list, at, from) {
  opened = { list, at, from };
  show();
  byId("large").showModal();
  byId("close").focus();
}

function show() {
  const row = data.rows[opened.list[opened.at]];
  byId("large-title").textContent =
    `${shown(row.values[data.name])} (${opened.at + 1} of ${opened.list.length})`;
  byId("large-picture").replaceChildren(picture(row, 49));
  const facts = [];
  row.values.forEach((value, column) => {
    if (value === null || value === undefined) return;
    facts.push(element("dt", "", data.columns[column].name));
    facts.push(element("dd", column === data.path ? "path" : "", said(value, column)));
  });
  if (row.note) facts.push(element("dt", "", "picture"), element("dd", "", row.note));
  if (row.more) facts.push(element("dt", "", "…"), element("dd", "", row.more));
  byId("facts").replaceChildren(...facts);
  byId("previous").disabled = opened.at === 0;
  byId("next").disabled = opened.at === opened.list.length - 1;
}

function step(by) {
  const at = opened.at + by;
  if (at < 0 || at >= opened.list.length) return;
  opened.at = at;
  show();
}

byId("previous").addEventListener("click", () => step(-1));
byId("next").addEventListener("click", () => step(1));
byId("close").addEventListener("click", () => byId("large").close());
byId("large").addEventListener("click", (event) => {
  if (event.target === byId("large")) byId("large").close();
});
byId("large").addEventListener("keydown", (event) => {
  const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (by) { event.preventDefault(); step(by); }
});
byId("large").addEventListener("close", () => {
  const box = opened.from && opened.from.closest(".tiles");
  if (box) focusTile([...box.querySelectorAll(".tile")], opened.at);
});

// -- the gallery: search, filters, order

function select(label, options) {
  const box = element("select");
  box.setAttribute("aria-label", label);
  options.forEach(([text, value]) => {
    const option = element("option", "", text);
    option.value = value;
    box.append(option);
  });
  const around = element("label", "", label);
  around.append(box);
  byId("selects").append(around);
  box.addEventListener("change", update);
  return box;
}

const filters = data.filters.map(({ column, values }) => {
  const options = values.map((value, at) => [shown(value), String(at)]);
  const box = select(data.columns[column].name, [["all", ""], ...options]);
  return (row) => box.value === "" || row.values[column] === values[Number(box.value)];
});
if (data.marks.length) {
  const box = select("Only", [["all", ""], ...data.marks.map((mark) => [mark, mark])]);
  filters.push((row) => box.value === "" || (row.marks || []).includes(box.value));
}
[["order of the manifest", ""], ...data.columns.map((one, at) => [one.name, String(at)])].forEach(
  ([text, value]) => {
    const option = element("option", "", text);
    option.value = value;
    byId("sort").append(option);
  },
);

const collator = new Intl.Collator(undefined, { numeric: true });

// Rows without a value stand last in both directions.
function compare(column, sign) {
  return (a, b) => {
    const [x, y] = [data.rows[a].values[column] ?? null, data.rows[b].values[column] ?? null];
    if (x === null || y === null) return (x === null) - (y === null) || a - b;
    const order = typeof x === "number" && typeof y === "number"
      ? x - y : collator.compare(String(x), String(y));
    return sign * order || a - b;
  };
}

function update() {
  const words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  data.gallery.forEach((at) => {
    const row = data.rows[at];
    if (!filters.every((keeps) => keeps(row))) return;
    const text = words.length ? row.values.map(shown).join("\n").toLowerCase() : "";
    if (words.every((word) => text.includes(word))) found.push(at);
  });
  const descending = byId("direction").getAttribute("aria-pressed") === "true";
  const column = byId("sort").value;
  if (column !== "") found.sort(compare(Number(column), descending ? -1 : 1));
  else if (descending) found.reverse();
  byId("count").textContent = `${found.length} of ${data.gallery.length} shown`;
  fill(byId("tiles"), found);
}

byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("search").addEventListener("input", update);
byId("sort").addEventListener("change", update);
byId("direction").addEventListener("click", (event) => {
  const pressed = event.currentTarget.getAttribute("aria-pressed") === "true";
  event.currentTarget.setAttribute("aria-pressed", String(!pressed));
  update();
});
byId("tiles").addEventListener("keydown", onArrow);
update();

// -- light and dark

const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
const name = () => { byId("theme").textContent = isDark() ? "Light theme" : "Dark theme"; };
byId("theme").hidden = false;
byId("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  name();
});
dark.addEventListener("change", name);
name();
