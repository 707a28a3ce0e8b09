
"use strict";
const EVERY_MS = 2000, ROWS = 20;
const by = id => document.getElementById(id);
let key = sessionStorage.getItem("key") || "";
let source = null, seen = null;

function headers() { return key ? { Authorization: "Bearer " + key } : {}; }

function made(name, text, cls) {
  const element = document.createElement(name);
  if (text !== undefined) element.textContent = text;
  if (cls) element.className = cls;
  return element;
}

function row(cells) {
  const tr = made("tr");
  for (const [n, cell] of cells.entries()) {
    const td = made(n ? "td" : "th");
    if (!n) td.scope = "row";
    if (cell instanceof Node) td.append(cell); else td.textContent = cell.text ?? cell;
    if (cell.number) td.className = "number";
    tr.append(td);
  }
  return tr;
}

function amount(value, unit) {
  if (value === null) return "no limit";
  if (unit !== "bytes") return Math.round(value * 10) / 10 + " " + unit;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let n = 0;
  while (value >= 1024 && n < units.length - 1) { value /= 1024; n += 1; }
  return value.toFixed(n && value < 10 ? 1 : 0) + " " + units[n];
}

function seconds(value) { return value < 90 ? value.toFixed(1) + " s" : Math.round(value / 60) + " min"; }

function share(name, used, limit) {
  if (!limit) return "";
  const meter = made("meter", Math.round(100 * used / limit) + " %");
  Object.assign(meter, { min: 0, max: limit, low: 0.6 * limit, high: 0.8 * limit, optimum: 0, value: used });
  meter.setAttribute("aria-label", name + ": " + Math.round(100 * used / limit) + " % used");
  return meter;
}

function show(told) {
  by("shown").hidden = false;
  by("key").hidden = true;
  const again = told.retry_after_seconds;
  const room = told.bounds.documents;
  by("state").textContent = told.level === "nothing" && !again
    ? "Documents are taken: " + room.used + " of " + room.limit + " places are used."
    : "Refused at this moment" + (told.level === "nothing" ? "" : ": " + told.because) +
      (again ? ". There will be room in about " + again + " s." : ".");
  by("state").className = again ? "bad" : "";
  const rate = told.drain_rate_per_second;
  const facts = {
    "in flight": told.in_flight + " documents",
    "done since the start": told.done + " of " + told.accepted + " accepted",
    "oldest that waits": seconds(told.oldest_eligible_age_seconds),
    "drain rate": rate === null ? "not measured yet (nothing waits)" : rate.toFixed(2) + " documents/s",
    "workers": told.workers_busy + " of " + told.workers + " busy",
  };
  by("facts").replaceChildren(...Object.entries(facts).flatMap(([name, text]) => [made("dt", name), made("dd", text)]));
  by("bounds").replaceChildren(...Object.entries(told.bounds).map(([name, its]) => row([
    name, amount(its.used, its.unit), { text: amount(its.limit, its.unit), number: true }, share(name, its.used, its.limit),
  ])));
  by("classes").replaceChildren(...Object.entries(told.classes).map(([name, its]) => row([
    name, its.taken ? "yes" : "no", { text: its.waiting, number: true }, { text: seconds(its.oldest_age_seconds), number: true },
  ])));
}

function link(id) {
  const a = made("a", id || "");
  if (id) a.href = "/v1/documents/" + encodeURIComponent(id);
  return a;
}

function happened(event) {
  const told = JSON.parse(event.data);
  seen = Number(event.lastEventId) || seen;
  ended(told.document_id);
  const entry = told.voucher || (told.sequence ? String(told.sequence) : "") || told.code || "";
  by("events").prepend(row([new Date(told.at).toLocaleTimeString(), event.type, link(told.document_id), entry]));
  while (by("events").children.length > ROWS) by("events").lastChild.remove();
}

function ended(id) { if (id) by("page-" + id)?.remove(); }

function reading(event) {
  const told = JSON.parse(event.data);
  ended(told.document_id);
  if (told.pages_done >= told.pages_total) return;
  const li = made("li", "page " + (told.pages_done + 1) + " of " + told.pages_total + " of ");
  li.id = "page-" + told.document_id;
  const bar = made("progress");
  Object.assign(bar, { max: told.pages_total, value: told.pages_done });
  bar.setAttribute("aria-label", "pages read");
  li.append(link(told.document_id), " ", bar);
  by("reading").prepend(li);
  while (by("reading").children.length > ROWS) by("reading").lastChild.remove();
}

async function listen() {
  if (source) return;
  const answer = await fetch("/v1/events/ticket", { method: "POST", headers: headers() });
  by("live").textContent = answer.ok ? "" : "Events cannot be shown: " + (await answer.json()).title;
  if (!answer.ok) return;
  const { ticket } = await answer.json();
  source = new EventSource("/v1/events?after=" + seen + "&ticket=" + encodeURIComponent(ticket));
  for (const what of ["opened", "closed", "finished"]) source.addEventListener("batch." + what, happened);
  for (const what of ["accepted", "running", "succeeded", "partial", "failed", "cancelled", "corrected", "approved", "rejected"])
    source.addEventListener("document." + what, happened);
  source.addEventListener("document.progress", reading);
  // A ticket is good for a minute: the next look at the capacity gets another one.
  source.onerror = () => { source.close(); source = null; by("reading").replaceChildren(); };
}

async function look() {
  let wait = EVERY_MS;
  try {
    const answer = await fetch("/v1/capacity", { headers: headers(), cache: "no-store" });
    if (answer.status === 401) {
      by("shown").hidden = true;
      by("key").hidden = false;
      by("state").textContent = "A key is needed to look.";
    } else if (!answer.ok) {
      const problem = await answer.json();
      by("state").textContent = problem.title + ". " + problem.detail;
      wait = Math.max(wait, 1000 * (Number(answer.headers.get("Retry-After")) || 0));
    } else {
      const told = await answer.json();
      if (seen === null) seen = Math.max(0, told.last_event_id - ROWS);
      show(told);
      await listen();
    }
  } catch (error) {
    by("state").textContent = "The service does not answer: " + error.message;
    by("state").className = "bad";
  }
  setTimeout(look, wait);
}

by("key").addEventListener("submit", event => {
  event.preventDefault();
  key = by("secret").value.trim();
  sessionStorage.setItem("key", key);
});
look();
