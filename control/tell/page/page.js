// Keeps the page up to date: asks for /live.json every 2 s while somebody can see it, and for the page itself when something else
// than numbers changed. Everything is there without it.
"use strict";

(() => {
  const kEvery_ms = 2000, kPage_ms = 60000, kGap_ms = 12000, kPatience_ms = 10000;
  const kDrawn = 8;
  const svg = "http://www.w3.org/2000/svg";
  const live = document.getElementById("live");
  let state = null, timer = 0, pageAt = Date.now(), toldAt = Date.now();

  // As scaled() of control/tell/answer/text.cpp: 98, 12.3 k, 1.23 M.
  function scaled(value) {
    const units = ["", "k", "M", "G", "T"];
    let unit = 0;
    for (; value >= 999.5 && unit + 1 < units.length; unit++) value /= 1000;
    const digits = unit === 0 ? (value < 9.95 && value !== Math.floor(value) ? 1 : 0) : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return value.toFixed(digits) + (unit === 0 ? "" : " " + units[unit]);
  }

  function show(element, text) {
    if (element !== null && element.textContent !== text) element.textContent = text;
  }

  function showCount(cell, value) {
    const data = cell && cell.querySelector("data");
    if (!data) return;
    data.value = value;
    show(data, scaled(value));
  }

  function niceAbove(value) {
    let power = 1;
    while (value > 10 * power) power *= 10;
    return ([1, 2, 5].find((step) => value <= step * power) || 10) * power;
  }

  // The runs of looks without a gap: [first, last) of `at`.
  function runsOf(at) {
    const runs = [];
    let first = 0;
    for (let i = 1; i <= at.length; i++) {
      if (i < at.length && at[i] - at[i - 1] <= kGap_ms) continue;
      if (i - first > 1) runs.push([first, i]);
      first = i;
    }
    return runs;
  }

  function painter(history, width, height, most) {
    const x = (i) => ((history.at[i] - history.from) / (history.to - history.from) * width).toFixed(1);
    const y = (value) => (height - value / most * height).toFixed(1);
    return {
      area: (lower, upper) => runsOf(history.at).map(([first, last]) => {
        let path = "";
        for (let i = first; i < last; i++) path += (i === first ? "M" : "L") + x(i) + " " + y(upper[i]);
        for (let i = last - 1; i >= first; i--) path += "L" + x(i) + " " + y(lower[i]);
        return path + "Z";
      }).join(""),
    };
  }

  const sum = (one, other) => one.map((value, i) => value + other[i]);
  const mean = (values) => values.length === 0 ? 0 : values.reduce((all, value) => all + value, 0) / values.length;
  const most = (values) => values.reduce((all, value) => Math.max(all, value), 0);

  function scale(figure, value, text) {
    show(figure.querySelector(".most"), scaled(value));
    show(figure.querySelector(".half"), scaled(value / 2));
    figure.querySelector("svg").setAttribute("aria-label", text);
  }

  function drawTraffic(history) {
    const figure = document.getElementById("plot-traffic");
    if (figure === null) return;
    const all = sum(history.dropped, history.passed), top = niceAbove(most(all));
    const paint = painter(history, 600, 160, top);
    const about = (what, values) => `${what} ${scaled(mean(values))} a second on average, ${scaled(most(values))} at most`;
    scale(figure, top, `Packets of the last 5 minutes: ${about("passed", history.passed)}; ${about("dropped", history.dropped)}.`);
    figure.querySelector("path.passed").setAttribute("d", paint.area(history.dropped, all));
    figure.querySelector("path.dropped").setAttribute("d", paint.area(history.at.map(() => 0), history.dropped));
  }

  function drawDrops(history) {
    const figure = document.getElementById("plot-drops");
    if (figure === null) return;
    const total = (series) => series.values.reduce((all, value) => all + value, 0);
    const drawn = history.lists.filter((series) => series.drops && total(series) > 0)
      .sort((one, other) => total(other) - total(one)).slice(0, kDrawn);
    const none = history.at.map(() => 0);
    const top = niceAbove(most(drawn.reduce((all, series) => sum(all, series.values), none)));
    const paint = painter(history, 600, 160, top);
    scale(figure, top, drawn.length === 0 ? "No list dropped anything in the last 5 minutes."
      : "Drops of the last 5 minutes, packets a second on average, by list: " +
        drawn.map((series) => series.name + " " + scaled(mean(series.values))).join(", ") + ".");
    const drawing = figure.querySelector("svg"), legend = figure.querySelector("ol");
    drawing.querySelectorAll(".band").forEach((band) => band.remove());
    legend.replaceChildren();
    const nothing = figure.querySelector(".hint");
    if (nothing !== null && drawn.length > 0) nothing.remove();
    let lower = none;
    drawn.forEach((series, i) => {
      const upper = sum(lower, series.values);
      const band = document.createElementNS(svg, "path");
      band.setAttribute("class", `band band${i + 1}`);
      band.setAttribute("d", paint.area(lower, upper));
      drawing.append(band);
      lower = upper;
      const item = document.createElement("li");
      for (const [name, text] of [[`swatch band${i + 1}`, ""], ["name", series.name], ["number", scaled(series.values.at(-1) ?? 0)]]) {
        const part = document.createElement("span");
        part.className = name;
        part.textContent = text;
        item.append(part);
      }
      legend.append(item);
    });
  }

  function drawSparks(history, rows) {
    for (const series of history.lists) {
      const path = rows.get(series.name)?.querySelector(".spark path");
      if (path) path.setAttribute("d", painter(history, 100, 18, Math.max(1, most(series.values))).area(history.at.map(() => 0), series.values));
    }
  }

  function showNumbers(told) {
    document.querySelectorAll(".tiles [data-rate]").forEach((cell) => {
      if (told.measured) show(cell, scaled(told.rates[cell.dataset.rate]));
    });
    document.querySelectorAll(".tiles [data-total]").forEach((cell) => show(cell, scaled(told.totals[cell.dataset.total])));
    document.querySelectorAll("[data-target]").forEach((row) => {
      const target = told.targets[row.dataset.target];
      row.querySelectorAll("[data-rate]").forEach((cell) => show(cell, target ? scaled(target[cell.dataset.rate]) : "\u2013"));
    });
    const rows = new Map();
    document.querySelectorAll("[data-list]").forEach((row) => {
      rows.set(row.dataset.list, row);
      const list = told.lists[row.dataset.list];
      if (!list) return;
      showCount(row.querySelector("[data-total=matched]"), list.matched);
      showCount(row.querySelector("[data-total=effect]"), list.effect);
      if (told.measured) show(row.querySelector("[data-rate=effect]"), scaled(list.effect_rate));
    });
    drawTraffic(told.history);
    drawDrops(told.history);
    drawSparks(told.history, rows);
  }

  // The element that screen readers watch stays, and changes only when it says something else.
  function say(level, mark, sentence) {
    const verdict = document.getElementById("verdict");
    verdict.className = level;
    verdict.querySelector(".headline .mark").className = "mark " + level;
    show(verdict.querySelector(".headline .mark"), mark);
    show(verdict.querySelector(".headline > span"), sentence);
  }

  function sayAway() {
    state = "away";
    say("problem", "Problem", "controld does not answer. Targets go on enforcing what they have; what is shown here is of " +
      new Date(toldAt).toISOString().slice(11, 19) + " UTC.");
    show(live, "");
  }

  // The parts that say something else by now; none that somebody is at: where the focus is, or that was opened.
  async function replaceParts() {
    const answer = await fetch("/", {cache: "no-store", signal: AbortSignal.timeout(kPatience_ms)});
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.title = page.title;
    const main = document.getElementById("main");
    if (main.childElementCount <= 1) return void main.replaceWith(page.getElementById("main"));
    for (const part of page.querySelectorAll("main > section")) {
      const old = document.getElementById(part.id);
      if (part.id === "explain" || old === null || old.contains(document.activeElement) || old.querySelector("details[open]")) continue;
      if (part.id === "verdict") {
        say(part.className, part.querySelector(".mark").textContent, part.querySelector(".headline > span").textContent);
        const [sentence, , ...rest] = [old.querySelector(".headline"), ...part.children];
        while (sentence.nextElementSibling !== null) sentence.nextElementSibling.remove();
        old.append(...rest.filter((element) => !element.classList.contains("headline")));
      } else if (part.id !== "traffic") {
        old.replaceWith(part);
      }
    }
    pageAt = Date.now();
  }

  async function look() {
    timer = 0;
    if (document.hidden) return;  // it goes on when it is seen again
    try {
      const answer = await fetch("/live.json", {cache: "no-store", signal: AbortSignal.timeout(kPatience_ms)});
      if (!answer.ok) throw new Error(String(answer.status));
      const told = await answer.json();
      const changed = state !== null && told.state !== state;
      state = told.state;
      if (changed || Date.now() - pageAt > kPage_ms) await replaceParts();
      showNumbers(told);
      toldAt = told.at * 1000;
      show(live, ", numbers live");
    } catch {
      sayAway();
    }
    timer = setTimeout(look, kEvery_ms);
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && timer === 0) look();
  });
  if (live !== null) look();
})();
