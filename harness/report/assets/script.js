"use strict";
const dialog = document.getElementById("provenance");
const show = (cell) => { dialog.querySelector("pre").textContent = cell.title; dialog.showModal(); };
document.addEventListener("click", (event) => {
  const cell = event.target.closest("td[tabindex]");
  if (cell) { show(cell); }
});
document.addEventListener("keydown", (event) => {
  if ((event.key === "Enter" || event.key === " ") && event.target.matches("td[tabindex]")) { event.preventDefault(); show(event.target); }
});
addEventListener("beforeprint", () => { document.querySelectorAll("details:not(.runs)").forEach((item) => { item.open = true; }); });
