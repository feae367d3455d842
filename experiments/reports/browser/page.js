// Starts the page: theme, charts, and, if the page is live, the refresh when run folders change.

function readData() { return JSON.parse(document.getElementById("data").textContent); }

let explorers = [];

function start() {
  const data = readData();
  explorers = [...document.querySelectorAll(".interactive")]
    .filter((place) => data[place.dataset.setting] && data[place.dataset.setting].columns.length)
    .map((place) => new Explorer(place, data[place.dataset.setting]));
}

function remember(theme) { try { localStorage.setItem("report-theme", theme); } catch (error) { /* no storage */ } }

function remembered() { try { return localStorage.getItem("report-theme") || ""; } catch (error) { return ""; } }

function applyTheme(theme) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  for (const explorer of explorers) explorer.draw();
}

function themeSwitch() {
  const choice = document.getElementById("theme");
  choice.value = remembered();
  choice.addEventListener("change", () => { remember(choice.value); applyTheme(choice.value); });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(choice.value));
  choice.parentElement.hidden = false;
}

// A live page asks whether run folders have changed. If so it takes over the new page's contents and keeps the
// reader's choices and place.
async function refresh(known) {
  const status = document.getElementById("live");
  let now = known;
  try {
    now = await (await fetch("version", { cache: "no-store" })).text();
    if (now !== known) {
      const fresh = new DOMParser().parseFromString(await (await fetch("./", { cache: "no-store" })).text(), "text/html");
      const open = [...document.querySelectorAll("details")].map((each) => each.open);
      for (const part of ["header .counts", "header nav", "main", "#data"]) {
        document.querySelector(part).replaceWith(document.adoptNode(fresh.querySelector(part)));
      }
      [...document.querySelectorAll("details")].forEach((each, i) => { each.open = open[i] || false; });
      start();
    }
    if (now !== known) refresh.changed = Date.now();
    status.textContent = `live · last change at ${new Date(refresh.changed).toLocaleTimeString()}`;
    status.classList.remove("lost");
  } catch (error) {
    status.textContent = "report.py --watch has ended; this page shows its last state";
    status.classList.add("lost");
  }
  setTimeout(refresh, 2000, now);
}

document.documentElement.classList.add("js");
if (remembered()) document.documentElement.dataset.theme = remembered();
start();
themeSwitch();
if (document.documentElement.dataset.live !== undefined) {
  refresh.changed = Date.now();
  refresh(document.documentElement.dataset.live);
}
