// The console works without this script. It updates pages while they are open, closes the stream of
// a hidden tab, and sends forms without losing the place. Everything that it inserts was rendered
// and escaped by the server.

const byId = (id) => document.getElementById(id);
const announce = (words) => { const place = byId("announce"); if (place) place.textContent = words; };

/** Returns the element that a piece of HTML from the server describes. */
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

/** Returns an element's HTML without the parts that differ although nothing changed. */
const essence = (element) =>
  element.outerHTML.replace(/<time[^>]*>[^<]*/g, "").replace(/ open=""/g, "").replace(/\s+/g, " ");

/** Puts an element in the place of the one that it replaces; open details stay open. */
function replace(old, fresh) {
  const had = old.contains(document.activeElement);
  const field = had && document.activeElement.id;
  const opened = [...old.querySelectorAll("details")].map((details) => details.open);
  [...fresh.querySelectorAll("details")].forEach((details, index) => { details.open = opened[index] ?? false; });
  old.replaceWith(fresh);
  if (!had) return;
  const target = (field && byId(field)) || fresh;
  target.focus({ preventScroll: true });
}

/** Inserts or replaces an element of a list or of the page. */
function place({ id, html, list, first }) {
  const fresh = parsed(html);
  if (!fresh) return;
  const old = byId(id);
  if (old) {
    if (essence(old) === essence(fresh)) return;
    replace(old, fresh);
    if (fresh.matches(".answered")) announce(fresh.innerText.replace(/\s+/g, " ").slice(0, 200));
  } else if (list && byId(list)) {
    byId(list)[first ? "prepend" : "append"](fresh);
    if (fresh.matches(".question")) announce("A new question waits.");
    const rows = byId(list).children;
    if (first && rows.length > 100) rows[rows.length - 1].remove();
  } else {
    return;
  }
  fresh.classList.add("fresh");
  const clear = byId("clear");
  if (clear && fresh.matches(".question:not(.answered)")) clear.replaceChildren();
}

let stream;

function open() {
  const live = document.querySelector("[data-live]");
  if (!live || document.hidden || stream) return;
  stream = new EventSource(live.dataset.live);
  stream.addEventListener("element", (event) => place(JSON.parse(event.data)));
  stream.addEventListener("text", (event) => {
    const { id, text } = JSON.parse(event.data);
    byId(id)?.append(text);
  });
}

function close() {
  stream?.close();
  stream = undefined;
}

document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
addEventListener("pagehide", close);
addEventListener("pageshow", open);

/** Shows a page that answers a form, such as the reason why a decision failed. */
function show(page) {
  close();
  document.title = page.title;
  document.body.replaceWith(document.adoptNode(page.body));
  byId("main")?.focus();
}

/** Sends a form of a card, and puts the card of the answer in its place. */
async function send(form, button) {
  const body = new URLSearchParams(new FormData(form, button));
  const answer = await fetch(form.action, { method: "POST", body, headers: { accept: "text/html" } });
  // The browser then shows the page to sign in on, whose reload sends the form again.
  if (answer.status === 401) throw new Error("signed out");
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const id = form.dataset.swap;
  const fresh = page.getElementById(id);
  const old = byId(id);
  // The page of a run does not list its answered questions. Its stream shows what follows.
  const isHere = answer.redirected && new URL(answer.url).pathname === location.pathname;
  if (old && !fresh && isHere && stream) {
    old.remove();
    byId("main").focus({ preventScroll: true });
    announce("Answered");
  } else if (!fresh || !old) {
    return answer.redirected ? location.assign(answer.url) : show(page);
  } else {
    const next = old.nextElementSibling ?? old.previousElementSibling;
    old.replaceWith(document.adoptNode(fresh));
    const invalid = fresh.querySelector("[aria-invalid]");
    const target = invalid ?? (fresh.matches(".answered") && next?.matches(".question") ? next : fresh);
    target.focus();
    const words = fresh.querySelector(".outcome, [role=alert]")?.textContent;
    if (words) announce(words);
  }
  const link = page.getElementById("nav-waiting");
  if (link) byId("nav-waiting")?.replaceWith(document.adoptNode(link));
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.swap || event.defaultPrevented) return;
  event.preventDefault();
  form.setAttribute("aria-busy", "true");
  const button = event.submitter;
  const sendPlainly = () => {
    // The browser then sends the form by itself, with the button that decides what it means.
    delete form.dataset.swap;
    form.requestSubmit(button);
  };
  send(form, button).catch(sendPlainly).finally(() => form.removeAttribute("aria-busy"));
});

// The link to sign in carries the code in its fragment, which no server and no log receives.
const signIn = byId("sign-in");
if (signIn && location.hash.length > 1) {
  byId("code").value = decodeURIComponent(location.hash.slice(1));
  history.replaceState(null, "", location.pathname);
  signIn.requestSubmit();
}

// Filters apply at once when a choice changes.
document.querySelectorAll("form.filters select").forEach((select) =>
  select.addEventListener("change", () => select.form.requestSubmit()));
