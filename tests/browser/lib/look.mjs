// Looks at a document as the browser built it: whether every element is one that our templates write,
// whether no attribute holds code or leads away, and whether the texts that must be seen are seen.

/** What is wrong with the document, which may hold `elements` alone, and which of `texts` it does not show. */
export async function look(page, elements, texts = []) {
  return page.evaluate(inspect, { texts, elements });
}

// Runs in the page.
function inspect({ texts, elements }) {
  const known = new Set(elements);
  // What our drawings are made of: nothing that moves, embeds or runs. Where a link leads is looked at below.
  const DRAWN = new Set(["svg", "rect", "title", "desc", "defs", "pattern", "line", "path", "text", "marker", "g", "a"]);
  const found = { strange: [], missing: [], shown: 0 };
  const addresses = new Set(["href", "xlink:href", "src", "action", "formaction", "data-events"]);
  const leadsHere = (value) => {
    try {
      return new URL(value, document.baseURI).origin === location.origin;
    } catch {
      return false;
    }
  };
  const ours = (script) => script.nonce !== "" && new URL(script.src || "about:blank").pathname.startsWith("/static/");
  // Control, direction and zero-width characters have to be written out.
  const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\u{e0000}-\u{e0fff}]/u;
  const visible = (text, where) => {
    const character = hidden.exec(text);
    if (character) found.strange.push(`an invisible character U+${character[0].codePointAt(0).toString(16)} in ${where}`);
  };
  visible(document.documentElement.textContent, "the text");
  for (const element of document.querySelectorAll("*")) {
    const name = element.localName;
    const isHtml = element.namespaceURI === "http://www.w3.org/1999/xhtml";
    const isDrawing = element.namespaceURI === "http://www.w3.org/2000/svg" && DRAWN.has(name);
    if (!(isHtml || isDrawing) || !known.has(name)) found.strange.push(`<${name}>`);
    if (name === "script" && !(isHtml && ours(element))) found.strange.push("<script> that is not ours");
    for (const { name: attribute, value } of element.attributes) {
      if (attribute.startsWith("on") || ["style", "srcdoc", "ping"].includes(attribute)) found.strange.push(`<${name} ${attribute}>`);
      if (addresses.has(attribute) && !leadsHere(value)) found.strange.push(`<${name} ${attribute}="${value}">`);
      visible(value, `<${name} ${attribute}>`);
    }
    // Handlers that wait for somebody to touch the element do not have to wait.
    for (const kind of ["mouseover", "pointerenter", "focus", "toggle", "animationend"]) element.dispatchEvent(new Event(kind));
  }
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
