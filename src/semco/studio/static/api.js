// Requests to the Studio. A refused request throws an Error whose message is the sentence of the answer.

export const TAB = Math.random().toString(36).slice(2, 10);
const GONE = "The Studio does not answer. Is it still running in its terminal? This page tries again by itself.";

async function ask(path, options) {
  let response, content;
  try {
    response = await fetch(path, options);
    content = await response.json();
  } catch {
    // no connection, or one that broke off
    throw new Error(GONE);
  }
  if (!response.ok) throw Object.assign(new Error(content.error), { content });
  return content;
}

export const get = (path) => ask(path);
export const post = (path, values) => ask(path, { method: "POST", body: JSON.stringify({ tab: TAB, ...values }) });
export const upload = (path, file) => ask(path, { method: "POST", body: file });

// `get` for one place on a page: the answer is null if that place has asked again since. Answers may come in any order.
export function getNewest() {
  let last = 0;
  return async (path) => {
    last += 1;
    const own = last,
      answer = await get(path);
    return own === last ? answer : null;
  };
}
