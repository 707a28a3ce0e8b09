"use strict";
const cards = [...document.querySelectorAll(".card")];
const buttons = [...document.querySelectorAll("[data-filter]")];
const words = document.querySelector("#words");
const shown = document.querySelector("#shown");
let filter = "all";

function apply() {
  const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const card of cards) {
    const fits = filter === "all" || card.dataset.show.split(" ").includes(filter);
    card.hidden = !(fits && wanted.every((word) => card.dataset.find.includes(word)));
    count += !card.hidden;
  }
  shown.textContent = count === cards.length ? "" : `${count} of ${cards.length} cards`;
}

for (const button of buttons) {
  button.addEventListener("click", () => {
    filter = button.dataset.filter;
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    apply();
  });
}
words.addEventListener("input", apply);
document.querySelector("#filters").hidden = false;

const dialog = document.querySelector("dialog");
function enlarge(figure) {
  dialog.replaceChildren(figure.querySelector(".page").cloneNode(true));
  dialog.showModal();
}
for (const figure of document.querySelectorAll("figure")) {
  figure.addEventListener("click", () => enlarge(figure));
  figure.addEventListener("keydown", (event) => event.key === "Enter" && enlarge(figure));
}
dialog.addEventListener("click", () => dialog.close());
