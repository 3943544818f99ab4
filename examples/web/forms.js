// Forms for questions, made from the JSON schemas of their answers.
//
// A field is {node, read}: `read` returns the answer, or undefined if it is left out. Nothing is
// checked here: the server refuses an answer that does not fit, and says why.

let ids = 0;

/** Make an element; texts are only ever text, never markup. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (["value", "checked", "textContent"].includes(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** Return the form for a question: {node, read}. */
export function questionForm({value, response_schema: schema}) {
  if (Array.isArray(value?.action_requests)) return approvals(value, schema ?? {});
  if (value?.type === "tool_approval") return approval(value, kindsIn(schema), schema ?? {});
  return schema ? field(schema, schema, "Answer", {required: true}) : longText("Answer");
}

/** Return the text of a question, and what else there is to it. */
export function questionText(value) {
  if (Array.isArray(value?.action_requests) || value?.type === "tool_approval") {
    return "May the agent do this?";
  }
  const text = value?.message ?? value?.question ?? value?.description;
  if (typeof value === "string") return value;
  return typeof text === "string" ? text : JSON.stringify(value, null, 2);
}

function field(given, root, name, {required = false, value} = {}) {
  const schema = resolved(given, root);
  const label = schema.title ?? name;
  const start = value === undefined ? schema.default : value;
  const options = {root, label, required, value: start, hint: schema.description};
  if ("const" in schema) return {node: el("span", {hidden: true}), read: () => schema.const};
  if (schema.enum) return choice(schema.enum, options);
  const ways = (schema.anyOf ?? schema.oneOf)?.map((each) => resolved(each, root));
  if (ways) return oneOf(ways, schema, options);
  switch (Array.isArray(schema.type) ? schema.type.find((each) => each !== "null") : schema.type) {
    case "string": return text(schema, options);
    case "integer": case "number": return number(schema, options);
    case "boolean": return checkbox(options);
    case "array": return schema.items ? list(schema, options) : json(options);
    case "object": return schema.properties ? object(schema, options) : json(options);
    case "null": return {node: el("span", {hidden: true}), read: () => null};
    default: return json(options);
  }
}

/** Follow the references of a schema to the definitions of its root. */
function resolved(schema, root) {
  let found = schema === true ? {} : schema;
  for (let depth = 0; depth < 20; depth++) {
    if (found.allOf?.length === 1) found = {...found.allOf[0], ...without(found, "allOf")};
    if (typeof found.$ref !== "string") break;
    const path = found.$ref.replace(/^#\/?/, "").split("/").filter(Boolean);
    const keys = path.map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~"));
    found = {...keys.reduce((at, key) => at?.[key], root), ...without(found, "$ref")};
  }
  return found;
}

function without(schema, key) {
  const {[key]: _, ...rest} = schema;
  return rest;
}

function optionalMark(required) {
  return required ? [] : [el("span", {class: "quiet"}, " (optional)")];
}

function isGiven(value) {
  return value !== undefined && value !== "";
}

function labelled(input, {label, hint, required}, after = false) {
  const id = `field-${++ids}`;
  input.id = id;
  const name = el("label", {for: id}, label, ...optionalMark(required));
  const node = el("div", {class: "field"}, ...(after ? [input, name] : [name, input]));
  if (after) node.classList.add("check");
  if (hint) {
    input.setAttribute("aria-describedby", `${id}-hint`);
    node.append(el("small", {id: `${id}-hint`}, hint));
  }
  return node;
}

function group({label, hint, required}, ...children) {
  const legend = el("legend", {}, label, ...optionalMark(required));
  return el("fieldset", {}, legend, ...(hint ? [el("small", {}, hint)] : []), ...children);
}

function text(schema, options) {
  const kinds = {email: "email", date: "date", time: "time", uri: "url"};
  const value = options.value ?? "";
  const isLong = String(value).length > 60 || schema.maxLength > 200;
  const input = isLong
    ? el("textarea", {rows: 3, value})
    : el("input", {type: kinds[schema.format] ?? "text", value, autocomplete: "off"});
  const read = () => (input.value === "" && !options.required ? undefined : input.value);
  return {node: labelled(input, options), read};
}

function longText(label) {
  const input = el("textarea", {rows: 2});
  return {node: labelled(input, {label, required: true}), read: () => input.value};
}

function number(schema, options) {
  const step = schema.type === "integer" ? schema.multipleOf ?? 1 : "any";
  const {minimum: min, maximum: max} = schema;
  const input = el("input", {type: "number", step, min, max, value: options.value ?? ""});
  const range = min !== undefined && max !== undefined ? `${min} to ${max}` : undefined;
  const hint = options.hint ?? range;
  const read = () => (input.value === "" ? undefined : Number(input.value));
  return {node: labelled(input, {...options, hint}), read};
}

function checkbox(options) {
  const input = el("input", {type: "checkbox", checked: options.value === true});
  return {node: labelled(input, {...options, required: true}, true), read: () => input.checked};
}

function shown(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function choice(values, options) {
  const chosen = values.findIndex((each) => JSON.stringify(each) === JSON.stringify(options.value));
  if (values.length > 5) {
    const items = values.map((each, i) =>
      el("option", {value: i, selected: i === chosen}, shown(each)));
    const select = el("select", {}, el("option", {value: ""}, "choose"), ...items);
    const read = () => (select.value === "" ? undefined : values[Number(select.value)]);
    return {node: labelled(select, options), read};
  }
  const name = `choice-${++ids}`;
  const radios = values.map((_, i) => el("input", {type: "radio", name, checked: i === chosen}));
  const items = radios.map((each, i) => el("label", {class: "check"}, each, shown(values[i])));
  const read = () => values[radios.findIndex((each) => each.checked)];
  return {node: group(options, el("div", {class: "choices"}, ...items)), read};
}

function oneOf(ways, schema, options) {
  const values = ways.filter((each) => each.type !== "null");
  if (ways.length && ways.every((each) => "const" in each)) {
    return choice(ways.map((each) => each.const), options);
  }
  const mayBeNull = values.length < ways.length;
  if (values.length === 1) {
    const description = options.hint ?? values[0].description;
    const only = {...values[0], title: options.label, description};
    const value = options.value ?? undefined;
    const required = options.required && !mayBeNull;
    const inner = field(only, options.root, options.label, {required, value});
    const read = () => inner.read() ?? (mayBeNull && options.required ? null : undefined);
    return {node: inner.node, read};
  }
  const names = ways.map((each, i) => each.title ?? each.type ?? `way ${i + 1}`);
  const select = el("select", {}, ...names.map((each, i) => el("option", {value: i}, each)));
  const place = el("div");
  let inner;
  const show = () => {
    inner = field(ways[Number(select.value)], options.root, options.label, {required: true});
    place.replaceChildren(inner.node);
  };
  select.addEventListener("change", show);
  show();
  const kind = labelled(select, {label: `Kind of ${options.label}`, required: true});
  return {node: group(options, kind, place), read: () => inner.read()};
}

function list(schema, options) {
  const items = resolved(schema.items, options.root);
  const rows = [];
  const place = el("div", {class: "rows"});
  const add = (value) => {
    const name = `${items.title ?? options.label} ${rows.length + 1}`;
    const inner = field({...items, title: name}, options.root, name, {required: true, value});
    const remove = el("button", {type: "button", "aria-label": `Remove ${name}`}, "×");
    const row = el("div", {class: "row"}, inner.node, remove);
    const entry = {inner, row};
    remove.addEventListener("click", () => {
      rows.splice(rows.indexOf(entry), 1);
      row.remove();
    });
    rows.push(entry);
    place.append(row);
    return row;
  };
  const least = Math.max(schema.minItems ?? 0, options.required ? 1 : 0);
  const start = Array.isArray(options.value) ? options.value : Array(least).fill(undefined);
  start.forEach(add);
  const more = el("button", {type: "button"}, "Add");
  more.addEventListener("click", () => add().querySelector("input, textarea, select")?.focus());
  const read = () => {
    const values = rows.map((each) => each.inner.read()).filter(isGiven);
    return values.length || options.required ? values : undefined;
  };
  return {node: group(options, place, more), read};
}

function object(schema, options) {
  const fields = Object.entries(schema.properties).map(([key, each]) => {
    const required = schema.required?.includes(key) ?? false;
    return [key, field(each, options.root, key, {required, value: options.value?.[key]})];
  });
  const read = () => {
    const read = fields.map(([key, each]) => [key, each.read()]);
    const values = read.filter(([, each]) => each !== undefined);
    const isBlank = values.every(([, each]) => each === false || each === "");
    return isBlank && !options.required ? undefined : Object.fromEntries(values);
  };
  return {node: group(options, ...fields.map(([, each]) => each.node)), read};
}

function json(options) {
  const value = options.value === undefined ? "" : JSON.stringify(options.value, null, 2);
  const input = el("textarea", {rows: 4, class: "code", spellcheck: "false", value});
  const read = () => {
    if (input.value.trim() === "") return undefined;
    try {
      return JSON.parse(input.value);
    } catch (error) {
      throw new Error(`${options.label} is not JSON: ${error.message}`);
    }
  };
  return {node: labelled(input, {...options, label: `${options.label}, as JSON`}), read};
}

// approvals: the questions of LangChain's human in the loop

const KINDS = {approve: "Approve", edit: "Edit", reject: "Reject", respond: "Respond instead"};

function approvals(value, schema) {
  const parts = value.action_requests.map((request, i) =>
    approval(request, value.review_configs?.[i]?.allowed_decisions ?? [], schema));
  const read = () => ({decisions: parts.map((each) => each.read())});
  return {node: el("div", {}, ...parts.map((each) => each.node)), read};
}

function approval(request, kinds, schema) {
  const name = `decision-${++ids}`;
  const args = argumentsForm(request, schema);
  const reason = longText("Why (the model reads it)");
  const result = longText("Result for the model, in place of the tool's");
  const parts = {approve: el("div"), edit: args.node, reject: reason.node, respond: result.node};
  const place = el("div");
  const radios = kinds.filter((kind) => kind in KINDS).map((kind) => {
    const radio = el("input", {type: "radio", name, value: kind});
    radio.addEventListener("change", () => {
      place.replaceChildren(parts[kind]);
      (place.closest("form") ?? place).scrollIntoView({block: "nearest"});
    });
    return radio;
  });
  const read = () => {
    const kind = radios.find((each) => each.checked)?.value;
    if (!kind) throw new Error(`Decide on ${request.name} first.`);
    if (kind === "edit") return {type: kind, edited_action: {name: request.name, args: args.read()}};
    const message = kind === "reject" ? reason.read() : result.read();
    if (kind === "respond" || (kind === "reject" && message)) return {type: kind, message};
    return {type: kind};
  };
  const choices = radios.map((each) => el("label", {class: "check"}, each, KINDS[each.value]));
  const node = el("fieldset", {class: "approval"}, el("legend", {}, request.name),
    el("pre", {}, JSON.stringify(request.args, null, 2)),
    el("div", {class: "choices"}, ...choices), place);
  return {node, read};
}

/** Return the form for the arguments of an edited call, by the schema of its tool. */
function argumentsForm(request, schema) {
  const actions = schema.$defs?.edited_action?.anyOf ?? [];
  const own = actions.find((each) => each.properties?.name?.const === request.name);
  const args = own?.properties?.args;
  const isKnown = args && Object.keys(args.properties ?? {}).length > 0;
  const wanted = isKnown ? {...args, title: "Arguments", description: undefined} : {title: "Arguments"};
  return field(wanted, schema, "Arguments", {required: true, value: request.args});
}

function kindsIn(schema) {
  const text = JSON.stringify(schema ?? {});
  return Object.keys(KINDS).filter((kind) => text.includes(`"const":"${kind}"`));
}
