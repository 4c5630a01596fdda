// Asks for the page again every 2 s while somebody can see it, and makes this document like the answer. Everything is
// there without it.
"use strict";

(() => {
  const kEvery_ms = 2000, kPatience_ms = 10000;
  let timer = 0;

  // The visitor's question and its answer, and the sentence about this script, do not come from the new answer.
  const isKept = (node) => node.id === "explain" || node.id === "live";

  // Makes `old` like `fresh`. Nodes that are alike stay where they are: with the focus, the selection, and what was
  // opened or scrolled; screen readers hear only texts that differ.
  function update(old, fresh) {
    if (old.nodeName !== fresh.nodeName || old.id !== fresh.id) return old.replaceWith(fresh);
    if (isKept(old)) return;
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    for (const {name, value} of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const {name} of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    const [had, has] = [[...old.childNodes], [...fresh.childNodes]];
    had.slice(has.length).forEach((child) => child.remove());
    has.forEach((child, i) => i < had.length ? update(had[i], child) : old.append(child));
  }

  function tell(text) {
    const live = document.getElementById("live");
    if (live.textContent !== text) live.textContent = text;
  }

  function tellAway() {
    const verdict = document.getElementById("verdict"), sentence = verdict.querySelector(".headline > span");
    const at = document.querySelector("footer time").dateTime.slice(11, 19);
    const text = `controld does not answer. Targets go on enforcing what they have; what is shown here is of ${at} UTC.`;
    verdict.className = "problem";
    verdict.querySelector(".headline .mark").className = "mark problem";
    verdict.querySelector(".headline .mark").textContent = "Problem";
    if (sentence.textContent !== text) sentence.textContent = text;
    tell("");
  }

  async function look() {
    timer = 0;
    if (document.hidden) return;  // it goes on when it is seen again
    const began = Date.now();
    try {
      const answer = await fetch("/", {cache: "no-store", signal: AbortSignal.timeout(kPatience_ms)});
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      document.title = page.title;
      update(document.body, page.body);
      tell(", numbers live");
    } catch {
      tellAway();
    }
    // A large page on a slow line takes a tenth of the time at most.
    timer = setTimeout(look, Math.max(kEvery_ms, 10 * (Date.now() - began)));
  }

  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && timer === 0) look();
  });
  look();
})();
