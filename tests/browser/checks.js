// What is wrong with the page for those who do not see it, or not well; a list of sentences.
const wrong = [];
const shown = (e) => {
  const box = e.getBoundingClientRect();
  const style = getComputedStyle(e);
  return box.width > 1 && box.height > 1 && style.visibility === "visible";
};
const where = (e) => "<" + e.tagName.toLowerCase() + (e.id ? " id=" + e.id : "") + ">";

// Names.
const named = (e) => {
  const by = (e.getAttribute("aria-labelledby") || "").split(" ").filter(Boolean);
  const labels = e.labels ? [...e.labels].map((l) => l.textContent) : [];
  const parts = [
    e.getAttribute("aria-label"),
    ...by.map((id) => (document.getElementById(id) || {}).textContent),
    ...labels,
    ...[...e.querySelectorAll(":scope > title")].map((title) => title.textContent),
    /^(BUTTON|A|SUMMARY)$/.test(e.tagName) ? e.textContent : "",
  ];
  return parts.join("").trim() !== "";
};
const controls = "a[href], button, input, select, textarea, summary, progress, [tabindex='0']";
for (const e of document.querySelectorAll(controls + ", [role='img'], [role='region']")) {
  if (shown(e) && !named(e)) wrong.push("no name: " + where(e));
}

// Identifiers, landmarks, language, headings.
const ids = [...document.querySelectorAll("[id]")].map((e) => e.id).filter((id) => !id.includes("-clip"));
const own = ids.filter((id, i) => ids.indexOf(id) !== i && document.querySelectorAll("main #" + CSS.escape(id)).length > 1);
for (const id of own) wrong.push("twice the id " + id);
for (const tag of ["header", "main", "footer"]) {
  if (document.querySelectorAll("body > " + tag).length !== 1) wrong.push("not one " + tag);
}
if (document.documentElement.lang !== "en") wrong.push("no language");
if (!document.title) wrong.push("no title");
if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
let level = 0;
for (const e of document.querySelectorAll("h1, h2, h3, h4")) {
  if (!shown(e)) continue;
  const now = Number(e.tagName[1]);
  if (now > level + 1) wrong.push("a level is left out before " + where(e) + e.textContent);
  level = now;
}
for (const e of document.querySelectorAll("section")) {
  if (!named(e)) wrong.push("no name: " + where(e));
}
for (const e of document.querySelectorAll("th")) {
  if (!e.scope) wrong.push("no scope: " + where(e) + e.textContent);
}
for (const e of document.querySelectorAll("[tabindex]")) {
  if (Number(e.getAttribute("tabindex")) > 0) wrong.push("an order of its own: " + where(e));
}
if (document.querySelectorAll("[aria-live], [role='log'], [role='status']").length < 2) {
  wrong.push("nothing is announced");
}

// Contrast of text: 4.5 to 1, or 3 to 1 if it is large.
const numbers = (color) => (color.match(/[\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => {
  const part = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const ground = (e) => {
  for (let at = e; at; at = at.parentElement) {
    const color = numbers(getComputedStyle(at).backgroundColor);
    if (color.length === 3 || color[3] === 1) return color;
  }
  return [255, 255, 255];
};
for (const e of document.querySelectorAll("body *")) {
  const text = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
  if (!text || !shown(e) || e.closest(":disabled, svg, script, .skip")) continue;
  const style = getComputedStyle(e);
  const [a, b] = [light(numbers(style.color)), light(ground(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  if (ratio < (large ? 3 : 4.5)) {
    wrong.push("contrast " + ratio.toFixed(2) + ": " + where(e) + e.textContent.slice(0, 40));
  }
}
// Nothing is cut off at the side.
if (document.documentElement.scrollWidth > innerWidth + 1) {
  wrong.push("wider than the window: " + document.documentElement.scrollWidth);
}
return wrong;
