// Forms for questions, made from the JSON schemas of their answers.
//
// A field is {node, read, find}: `read` returns the answer, or undefined if it is left out; `find`
// returns the node at a path of the answer, such as ["by", "name"]. The page does not check answers:
// the server rejects an answer that does not fit, and `showFaults` shows its errors at the fields.

import {el, longText, newId} from "./elements.js";

/** @import {Child, Fault, Field} from "./page.d.ts" */
/** @import {Data, Question, Schema, Values} from "./shapes.d.ts" */

/** @type {Record<string, string>} */
const INPUT_TYPES = {email: "email", date: "date", time: "time", uri: "url"};
const DEEPEST = 6; // maximum depth of fields; deeper ones, as of recursive schemas, are JSON

/** Make the form for a question: {node, read, find}; a `previous` answer is filled in.
 *
 * @param {Pick<Question, "value" | "response_schema">} question
 * @param {Data} [previous]
 * @returns {Field}
 */
export function questionForm({value, response_schema: schema}, previous) {
  if (Array.isArray(value?.action_requests)) return approvals(value, schema ?? {});
  if (value?.type === "tool_approval") return approval(value, kindsIn(schema), schema ?? {}, "");
  if (schema) return fieldFor(schema, schema, "Answer", {required: true, value: previous});
  return textArea("Answer", typeof previous === "string" ? previous : undefined);
}

/** Return the text of a question.
 *
 * @param {Data} value
 */
export function questionText(value) {
  const requests = requestsIn(value);
  if (requests.length) return approvalText(requests);
  if (typeof value === "string") return value;
  const text = value?.message ?? value?.question ?? value?.description;
  return typeof text === "string" ? text : JSON.stringify(value, null, 2);
}

/** Return the calls that a question for approval asks about; none for another question.
 *
 * @param {Data} value
 * @returns {{name: string, args: Data}[]}
 */
export function requestsIn(value) {
  if (Array.isArray(value?.action_requests)) return value.action_requests;
  return value?.type === "tool_approval" ? [value] : [];
}

/** Return the question for the approval of tool calls: "Approve pay ×3, mail?".
 *
 * @param {Data[]} calls
 */
function approvalText(calls) {
  const names = calls.map((each) => String(each?.name));
  const counted = [...new Set(names)].map((name) => {
    const count = names.filter((each) => each === name).length;
    return count > 1 ? `${name} ×${count}` : name;
  });
  return `Approve ${counted.join(", ")}?`;
}

/** Return the data of a question without its text, or undefined if there is no other data.
 *
 * @param {Data} value
 * @returns {Values | undefined}
 */
export function questionRest(value) {
  if (requestsIn(value).length) return undefined;
  const key = ["message", "question", "description"].find((each) => value?.[each] !== undefined);
  if (key === undefined || typeof value[key] !== "string") return undefined;
  const rest = without(value, key);
  return Object.keys(rest).length ? rest : undefined;
}

/** Return the faults in the error of a rejected answer: [[path, why], ...].
 *
 * @param {string} message
 * @param {string} address
 * @returns {Fault[]}
 */
export function faultsIn(message, address) {
  const [, text] = message.split(` to ${address} does not fit: `);
  if (text === undefined) return [];
  return text
    .split("; the question is still pending")[0]
    .split("; ")
    .map((fault) => {
      const [, path, why] = /^([^:]+): (.*)$/s.exec(fault) ?? [null, "", fault];
      return [path ? path.split(".") : [], why];
    });
}

/** Show faults at the fields of a form; earlier faults are removed.
 *
 * @param {Field} form
 * @param {Fault[]} faults
 */
export function showFaults(form, faults) {
  for (const old of form.node.querySelectorAll(".at-field")) old.remove();
  for (const input of form.node.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
    const rest = (input.getAttribute("aria-describedby") ?? "")
      .split(" ")
      .filter((id) => !id.includes("-fault-"));
    input.setAttribute("aria-describedby", rest.join(" "));
  }
  for (const [path, why] of faults) {
    if (!path.length) continue;
    const node = form.find(path);
    const id = newId("fault");
    node.append(el("p", {class: "fault at-field", id}, why));
    const input = inputIn(node);
    if (!input) continue;
    input.setAttribute("aria-invalid", "true");
    input.setAttribute(
      "aria-describedby",
      `${input.getAttribute("aria-describedby") ?? ""} ${id}`.trim(),
    );
  }
}

/**
 * @param {Schema | boolean} given
 * @param {Schema} root
 * @param {string} name
 * @param {{required?: boolean, value?: Data, depth?: number}} [more]
 * @returns {Field}
 */
export function fieldFor(given, root, name, {required = false, value, depth = 0} = {}) {
  const schema = resolved(given, root);
  const label = schema.title ?? name;
  const start = value === undefined ? schema.default : value;
  const options = {root, label, required, value: start, hint: schema.description, depth: depth + 1};
  if ("const" in schema) return hidden(schema.const);
  if (schema.enum) return choiceField(schema.enum, options);
  if (depth > DEEPEST) return jsonField(options);
  const ways = (schema.anyOf ?? schema.oneOf)?.map((each) => resolved(each, root));
  return ways ? oneOfField(ways, options) : fieldOfType(schema, options);
}

/** Make the field for a schema, by its type.
 *
 * @param {Schema} schema
 * @param {Options} options
 */
function fieldOfType(schema, options) {
  switch (Array.isArray(schema.type) ? schema.type.find((each) => each !== "null") : schema.type) {
    case "string":
      return textField(schema, options);
    case "integer":
    case "number":
      return numberField(schema, options);
    case "boolean":
      return checkboxField(options);
    case "array":
      return schema.items ? listField(schema, options) : jsonField(options);
    case "object":
      return schema.properties ? objectField(schema, options) : jsonField(options);
    case "null":
      return hidden(null);
    default:
      return jsonField(options);
  }
}

/**
 * Options of a field: `required` is false if its answer may be missing; `depth` counts outer fields.
 *
 * @typedef {{label: string, hint?: string, required: boolean}} Labels
 * @typedef {Labels & {root: Schema, value: Data, depth: number}} Options
 */

/** Return the first input of a form, or of a part of it.
 *
 * @param {Element} node
 * @returns {HTMLElement | null}
 */
export function inputIn(node) {
  return node.querySelector("input, textarea, select");
}

/** Follow the references of a schema to the definitions of its root.
 *
 * @param {Schema | boolean} schema
 * @param {Schema} root
 * @returns {Schema}
 */
function resolved(schema, root) {
  /** @type {Schema} */
  let found = typeof schema === "boolean" ? {} : schema;
  for (let depth = 0; depth < 20; depth++) {
    if (found.allOf?.length === 1) found = {...found.allOf[0], ...without(found, "allOf")};
    if (typeof found.$ref !== "string") break;
    const path = found.$ref.replace(/^#\/?/, "").split("/").filter(Boolean);
    const keys = path.map((each) => each.replaceAll("~1", "/").replaceAll("~0", "~"));
    found = {...keys.reduce((at, key) => at?.[key], /** @type {Data} */ (root)), ...without(found, "$ref")};
  }
  return found;
}

/**
 * @template {object} T
 * @template {string} K
 * @param {T} data
 * @param {K} key
 * @returns {Omit<T, K>}
 */
function without(data, key) {
  const {[key]: _, ...rest} = /** @type {Data} */ (data);
  return rest;
}

/** @param {boolean} required */
function optionalMark(required) {
  return required ? [] : [el("span", {class: "quiet"}, " (optional)")];
}

/** @param {unknown} value */
function isGiven(value) {
  return value !== undefined && value !== "";
}

/**
 * @param {HTMLElement} node
 * @param {() => Data} read
 * @returns {Field}
 */
function leaf(node, read) {
  return {node, read, find: () => node};
}

/** @param {Data} value */
function hidden(value) {
  return leaf(el("span", {hidden: true}), () => value);
}

/**
 * @param {HTMLElement} input
 * @param {Labels} labels
 */
function labelled(input, {label, hint, required}, after = false) {
  const id = newId("field");
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

/**
 * @param {Labels} labels
 * @param {Child[]} children
 */
function fieldGroup({label, hint, required}, ...children) {
  const legend = el("legend", {}, label, ...optionalMark(required));
  return el("fieldset", {}, legend, ...(hint ? [el("small", {}, hint)] : []), ...children);
}

/**
 * @param {Schema} schema
 * @param {Options} options
 */
function textField(schema, options) {
  const value = options.value ?? "";
  const isLong = String(value).length > 60 || (schema.maxLength ?? 0) > 200;
  const input = isLong
    ? el("textarea", {rows: 3, value})
    : el("input", {type: INPUT_TYPES[schema.format ?? ""] ?? "text", value, autocomplete: "off"});
  return leaf(labelled(input, options), () =>
    input.value === "" && !options.required ? undefined : input.value,
  );
}

/**
 * @param {string} label
 * @param {string} [value]
 */
function textArea(label, value) {
  const input = el("textarea", {rows: 2, value: value ?? ""});
  return leaf(labelled(input, {label, required: true}), () => input.value);
}

/**
 * @param {Schema} schema
 * @param {Options} options
 */
function numberField(schema, options) {
  const step = schema.type === "integer" ? (schema.multipleOf ?? 1) : "any";
  const {minimum: min, maximum: max} = schema;
  const input = el("input", {type: "number", step, min, max, value: options.value ?? ""});
  const range = min !== undefined && max !== undefined ? `${min} to ${max}` : undefined;
  const hint = options.hint ?? range;
  return leaf(labelled(input, {...options, hint}), () =>
    input.value === "" ? undefined : Number(input.value),
  );
}

/** @param {Options} options */
function checkboxField(options) {
  const input = el("input", {type: "checkbox", checked: options.value === true});
  return leaf(labelled(input, {...options, required: true}, true), () => input.checked);
}

/** @param {Data} value */
function choiceText(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/**
 * @param {Data[]} values
 * @param {Options} options
 */
function choiceField(values, options) {
  const chosen = values.findIndex((each) => JSON.stringify(each) === JSON.stringify(options.value));
  if (values.length > 5) {
    const items = values.map((each, i) =>
      el("option", {value: i, selected: i === chosen}, choiceText(each)),
    );
    const select = el("select", {}, el("option", {value: ""}, "Choose"), ...items);
    return leaf(labelled(select, options), () =>
      select.value === "" ? undefined : values[Number(select.value)],
    );
  }
  const name = newId("choice");
  const radios = values.map((_, i) => el("input", {type: "radio", name, checked: i === chosen}));
  const items = radios.map((each, i) => el("label", {class: "check"}, each, choiceText(values[i])));
  return leaf(
    fieldGroup(options, el("div", {class: "choices"}, ...items)),
    () => values[radios.findIndex((each) => each.checked)],
  );
}

/**
 * @param {Schema[]} ways
 * @param {Options} options
 */
function oneOfField(ways, options) {
  const values = ways.filter((each) => each.type !== "null");
  if (ways.length && ways.every((each) => "const" in each)) {
    return choiceField(
      ways.map((each) => each.const),
      options,
    );
  }
  if (values.length === 1) return maybeNullField(values[0], values.length < ways.length, options);
  const names = ways.map((each, i) => each.title ?? String(each.type ?? `kind ${i + 1}`));
  const select = el("select", {}, ...names.map((each, i) => el("option", {value: i}, each)));
  const first = ways.findIndex((each) => each.type === typeName(options.value));
  if (options.value !== undefined && first > 0) select.value = String(first);
  const place = el("div");
  /** @type {Map<string, Field>} */
  const made = new Map(); // keeps the typed text of each kind, for when it is chosen again
  const inner = () => {
    const {root, label, depth} = options;
    const value = made.size ? undefined : (options.value ?? undefined);
    const way = ways[Number(select.value)];
    const field =
      made.get(select.value) ?? fieldFor(way, root, label, {required: true, value, depth});
    made.set(select.value, field);
    return field;
  };
  const show = () => place.replaceChildren(inner().node);
  select.addEventListener("change", show);
  show();
  const kind = labelled(select, {label: `Kind of ${options.label}`, required: true});
  return {
    node: fieldGroup(options, kind, place),
    read: () => inner().read(),
    /** @param {string[]} path */
    find: (path) => inner().find(path),
  };
}

/** @param {Data} value */
function typeName(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return Number.isInteger(value) ? "integer" : typeof value;
}

/**
 * @param {Schema} schema
 * @param {boolean} mayBeNull
 * @param {Options} options
 */
function maybeNullField(schema, mayBeNull, options) {
  const description = options.hint ?? schema.description;
  const only = {...schema, title: options.label, description};
  const {root, label, depth} = options;
  const required = options.required && !mayBeNull;
  const inner = fieldFor(only, root, label, {required, value: options.value ?? undefined, depth});
  const read = () => inner.read() ?? (mayBeNull && options.required ? null : undefined);
  return {...inner, read};
}

/**
 * @param {Schema} schema
 * @param {Options} options
 * @returns {Field}
 */
function listField(schema, options) {
  const items = resolved(schema.items ?? true, options.root);
  /** @type {{inner: Field, row: HTMLElement}[]} */
  const rows = [];
  const place = el("div", {class: "rows"});
  /** @param {Data} [value] */
  const add = (value) => {
    const name = `${items.title ?? options.label} ${rows.length + 1}`;
    const further = {required: true, value, depth: options.depth};
    const inner = fieldFor({...items, title: name}, options.root, name, further);
    const remove = el("button", {type: "button", "aria-label": `Remove ${name}`}, "×");
    const row = el("div", {class: "row"}, inner.node, remove);
    const entry = {inner, row};
    remove.addEventListener("click", () => {
      rows.splice(rows.indexOf(entry), 1);
      row.remove();
      more.focus();
    });
    rows.push(entry);
    place.append(row);
    return row;
  };
  const least = Math.max(schema.minItems ?? 0, options.required ? 1 : 0);
  const start = Array.isArray(options.value) ? options.value : Array(least).fill(undefined);
  for (const each of start) add(each);
  const more = el("button", {type: "button"}, "Add");
  more.addEventListener("click", () => inputIn(add())?.focus());
  const read = () => {
    const values = rows.map((each) => each.inner.read()).filter(isGiven);
    return values.length || options.required ? values : undefined;
  };
  const node = fieldGroup(options, place, more);
  /** @type {Field["find"]} */
  const find = ([index, ...rest]) => {
    const filled = rows.filter((each) => isGiven(each.inner.read())); // counted as in `read`
    return filled[Number(index)]?.inner.find(rest) ?? node;
  };
  return {node, read, find};
}

/**
 * @param {Schema} schema
 * @param {Options} options
 * @returns {Field}
 */
function objectField(schema, options) {
  const fields = new Map(
    Object.entries(schema.properties ?? {}).map(([key, each]) => {
      const required = schema.required?.includes(key) ?? false;
      const further = {required, value: options.value?.[key], depth: options.depth};
      return [key, fieldFor(each, options.root, key, further)];
    }),
  );
  const read = () => {
    const all = [...fields].map(([key, each]) => [key, each.read()]);
    const values = all.filter(([, each]) => each !== undefined);
    const isBlank = values.every(([, each]) => each === false || each === "");
    return isBlank && !options.required ? undefined : Object.fromEntries(values);
  };
  const node = fieldGroup(options, ...[...fields.values()].map((each) => each.node));
  return {node, read, find: ([key, ...rest]) => fields.get(key)?.find(rest) ?? node};
}

/** @param {Options} options */
function jsonField(options) {
  const value = options.value === undefined ? "" : JSON.stringify(options.value, null, 2);
  const input = el("textarea", {rows: 4, class: "code", spellcheck: "false", value});
  const read = () => {
    if (input.value.trim() === "") return undefined;
    try {
      return JSON.parse(input.value);
    } catch (error) {
      throw new Error(`${options.label} is not JSON: ${error.message}`, {cause: error});
    }
  };
  return leaf(labelled(input, {...options, label: `${options.label}, as JSON`}), read);
}

// approvals: the questions of LangChain's human-in-the-loop middleware, and of agentgraph's tools

/** @type {Record<string, string>} */
const DECISIONS = {approve: "Approve", edit: "Edit", reject: "Reject", respond: "Respond instead"};

/**
 * @param {{action_requests: Request[], review_configs?: {allowed_decisions?: string[]}[]}} value
 * @param {Schema} schema
 * @returns {Field}
 */
function approvals(value, schema) {
  const all = value.action_requests.length;
  const numberOf = (/** @type {number} */ i) => (all > 1 ? ` (call ${i + 1} of ${all})` : "");
  const parts = value.action_requests.map((request, i) =>
    approval(request, value.review_configs?.[i]?.allowed_decisions ?? [], schema, numberOf(i)),
  );
  const node = el("div", {}, ...parts.map((each) => each.node));
  const read = () => ({decisions: parts.map((each) => each.read())});
  /** @type {Field["find"]} */
  const find = ([, index, ...rest]) => parts[Number(index)]?.find(rest) ?? node;
  return {node, read, find};
}

/**
 * @param {Request} request
 * @param {string[]} kinds
 * @param {Schema} schema
 * @param {string} number the number of the call among several
 * @returns {Field}
 */
function approval(request, kinds, schema, number) {
  const name = newId("decision");
  const args = argumentsForm(request, schema);
  const reason = textArea("Reason (for the model)");
  const result = textArea("Result for the model, instead of the tool's");
  /** @type {Record<string, HTMLElement>} */
  const parts = {approve: el("div"), edit: args.node, reject: reason.node, respond: result.node};
  const place = el("div");
  const radios = kinds
    .filter((kind) => kind in DECISIONS)
    .map((kind) => {
      const radio = el("input", {type: "radio", name, value: kind});
      radio.addEventListener("change", () => {
        place.replaceChildren(parts[kind]);
        place.scrollIntoView({block: "nearest"});
      });
      return radio;
    });
  const read = () => {
    const kind = radios.find((each) => each.checked)?.value;
    if (!kind) throw new Error(`The decision on ${request.name}${number} is missing. Choose one.`);
    if (kind === "edit") return {type: kind, edited_action: {name: request.name, args: args.read()}};
    const message = kind === "reject" ? reason.read() : result.read();
    if (kind === "respond" || (kind === "reject" && message)) return {type: kind, message};
    return {type: kind};
  };
  const choices = radios.map((each) => el("label", {class: "check"}, each, DECISIONS[each.value]));
  const isAboutArgs = /\nArgs: /.test(request.description ?? ""); // LangChain repeats them
  const about = request.description && !isAboutArgs ? [longText(request.description)] : [];
  const node = el(
    "fieldset",
    {class: "approval"},
    el("legend", {}, request.name),
    ...about,
    longText(JSON.stringify(request.args, null, 2), {tag: "pre", most: 1500}),
    el("div", {class: "choices"}, ...choices),
    place,
  );
  /** @type {Field["find"]} */
  const find = ([first, second, ...rest]) =>
    first === "edited_action" && second === "args" && args.node.isConnected ? args.find(rest) : node;
  return {node, read, find};
}

/**
 * The tool call that an agent requests.
 *
 * @typedef {{name: string, args: Values, description?: string}} Request
 */

/** Make the form for the arguments of an edited call, by the schema of its tool.
 *
 * @param {Request} request
 * @param {Schema} schema
 */
function argumentsForm(request, schema) {
  const actions = schema.$defs?.edited_action?.anyOf ?? [];
  const own = actions.find((each) => each.properties?.name?.const === request.name);
  const args = own?.properties?.args;
  const isKnown = args && Object.keys(args.properties ?? {}).length > 0;
  const wanted = isKnown ? {...args, title: "Arguments", description: undefined} : {title: "Arguments"};
  return fieldFor(wanted, schema, "Arguments", {required: true, value: request.args});
}

/** @param {Schema | null} schema */
function kindsIn(schema) {
  const text = JSON.stringify(schema ?? {});
  return Object.keys(DECISIONS).filter((kind) => text.includes(`"const":"${kind}"`));
}
