// The page about the API, generated from openapi.json.
import { byId, make } from "/page/dom.js";

function resolve(schema, all) {
  return schema?.$ref ? all[schema.$ref.split("/").at(-1)] : schema || {};
}

function example(schema, all) {
  const found = resolve(schema, all);
  if (found.examples?.length) return found.examples[0];
  const wanted = new Set(found.required || []);
  const fields = Object.entries(found.properties || {}).filter(([name, field]) => wanted.has(name) || field.examples);
  return Object.fromEntries(fields.map(([name, field]) => [name, field.examples ? field.examples[0] : ""]));
}

function fields(schema, all) {
  const found = resolve(schema, all), wanted = new Set(found.required || []);
  const rows = Object.entries(found.properties || {}).map(([name, field]) => [name, field.description || ""]);
  return rows.sort(([one], [other]) => wanted.has(other) - wanted.has(one));
}

const table = (rows) => make("table", {}, make("tbody", {}, ...rows.map(([name, about]) =>
  make("tr", {}, make("th", { scope: "row" }, make("code", {}, name)), make("td", {}, about)))));

function bodyOf({ content = {} } = {}) {
  const json = content["application/json"]?.schema, form = content["multipart/form-data"]?.schema;
  return { schema: json || form, isForm: !json };
}

function options(method, { schema, isForm }, all) {
  const verb = method === "put" || method === "delete" ? ` -X ${method.toUpperCase()}` : "";
  if (!schema) return verb;
  return verb + (isForm ? " \\\n  -F file=@messages.po" : ` \\\n  -H 'Content-Type: application/json' \\\n  -d '${JSON.stringify(example(schema, all))}'`);
}

function route(method, path, about, all) {
  const body = bodyOf(about.requestBody), { schema } = body;
  const rows = [...(about.parameters || []).map((one) => [one.name, one.description || ""]), ...(schema ? fields(schema, all) : [])];
  return make("article", { class: "card route" },
    make("h3", {}, make("span", { class: `method ${method}` }, method.toUpperCase()), make("code", {}, path)),
    make("p", {}, about.description || about.summary), make("pre", { tabindex: "0" }, `curl ${location.origin}${path}${options(method, body, all)}`),
    rows.length ? table(rows) : null,
    make("p", { class: "hint" }, `Responses: ${Object.keys(about.responses).join(", ")}`));
}

try {
  const described = await (await fetch("/openapi.json")).json();
  const groups = new Map();
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, about] of Object.entries(methods)) {
      const group = about.tags?.[0] || "other";
      groups.set(group, [...(groups.get(group) || []), route(method, path, about, described.components.schemas)]);
    }
  }
  byId("routes").replaceChildren(...[...groups].flatMap(([name, routes]) => [make("h2", { class: "group" }, name), ...routes]));
} catch {
  byId("routes").replaceChildren(make("p", { class: "notice error", role: "alert" }, "openapi.json cannot be loaded. Reload the page."));
}
