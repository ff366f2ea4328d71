// Looks at a document as the browser built it: whether every element is one that our templates write,
// whether no attribute holds code or leads away, and whether the texts that must be seen are seen.

const ELEMENTS = `a body br button caption code dd div dl dt fieldset footer form h1 h2 h3 head header html input
  kbd label legend li link main mark meta nav noscript option p pre script select span strong table tbody td
  textarea th thead title tr ul`.split(/\s+/);

/** What is wrong with the document, and which of `texts` it does not show. */
export async function look(page, texts = []) {
  return page.evaluate(inspect, { texts, elements: ELEMENTS });
}

// Runs in the page.
function inspect({ texts, elements }) {
  const known = new Set(elements);
  const found = { strange: [], missing: [], shown: 0 };
  const addresses = new Set(["href", "src", "action", "formaction", "data-events"]);
  for (const element of document.querySelectorAll("*")) {
    const name = element.localName;
    const isHtml = element.namespaceURI === "http://www.w3.org/1999/xhtml";
    if (!isHtml || !known.has(name)) found.strange.push(`<${name}>`);
    for (const { name: attribute, value } of element.attributes) {
      if (attribute.startsWith("on") || ["style", "srcdoc", "ping"].includes(attribute)) found.strange.push(`<${name} ${attribute}>`);
      if (addresses.has(attribute) && new URL(value, document.baseURI).origin !== location.origin) {
        found.strange.push(`<${name} ${attribute}="${value}">`);
      }
    }
    const isOurs = name !== "script" || (element.nonce !== "" && new URL(element.src).pathname.startsWith("/static/"));
    if (!isOurs) found.strange.push("<script> that is not ours");
    // Handlers that wait for somebody to touch the element do not have to wait.
    for (const kind of ["mouseover", "pointerenter", "focus", "toggle", "animationend"]) element.dispatchEvent(new Event(kind));
  }
  // Control, direction and zero-width characters in a text have to be written out.
  const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/u;
  const character = hidden.exec(document.documentElement.textContent);
  if (character) found.strange.push(`an invisible character U+${character[0].codePointAt(0).toString(16)}`);
  // The text as it is laid out, so that what is in the document and not shown does not count. White
  // space is the layout's own.
  const bare = (text) => text.replace(/\s+/gu, "");
  const shown = bare(document.body.innerText);
  for (const text of texts) {
    if (bare(text) !== "" && shown.includes(bare(text))) found.shown += 1;
    else found.missing.push(text);
  }
  return found;
}
