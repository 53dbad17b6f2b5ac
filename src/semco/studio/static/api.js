// Requests to the Studio. A refused request throws an Error whose message is the sentence of the answer.

export const TAB = Math.random().toString(36).slice(2, 10);

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw Object.assign(new Error("The Studio does not answer: look at its terminal, then reload this page."), { gone: true });
  }
  const content = await response.json();
  if (!response.ok) throw Object.assign(new Error(content.error), { status: response.status, content });
  return content;
}

export const get = (path) => ask(path);
export const post = (path, values) => ask(path, { method: "POST", body: JSON.stringify({ tab: TAB, ...values }) });
export const upload = (path, file) => ask(path, { method: "POST", body: file });
