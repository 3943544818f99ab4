// The conversation on a thread as data: its read parts joined, and its items in order.

/** @import {Talk, TalkCall, TalkItem} from "./page.d.ts" */
/** @import {AgentEvent, Conversation, Message, MessageData, PathEnd, Sent, Values} from "./shapes.d.ts" */

/** Join a part of a conversation to the known parts.
 *
 * @param {Talk | null} known
 * @param {Conversation} part
 * @param {{isEarlier?: boolean}} [options] whether the part was requested by `before`
 * @returns {Talk}
 */
export function joinedTalk(known, part, {isEarlier = false} = {}) {
  const {begin, upto, is_whole: isWhole} = part;
  const own = {sent: part.sent, events: eventsOf(part), asked: byId(part.asked)};
  if (!known || !(isEarlier || part.continues)) {
    return {...own, gone: new Set(part.discarded), begin, upto, isWhole};
  }
  const newer = isEarlier ? known : own;
  const ids = new Set(newer.events.map((each) => each.id));
  // a question that is asked again has the id of the one that was discarded
  const gone = new Set([...known.gone, ...part.discarded].filter((each) => !ids.has(each)));
  /** @param {AgentEvent} event */
  const stays = ({id, step}) => !ids.has(id) && !gone.has(id) && !gone.has(step ?? "");
  if (isEarlier) {
    return {
      ...known,
      sent: [...part.sent, ...known.sent],
      events: [...own.events.filter(stays), ...known.events],
      asked: new Map([...own.asked, ...known.asked]),
      gone, begin, isWhole,
    };
  }
  const before = known.events.filter((each) => (each.cursor ?? "") <= part.after && stays(each));
  return {
    ...known,
    sent: [...known.sent.filter((each) => each.at < begin), ...part.sent],
    events: [...before, ...own.events],
    asked: new Map([...known.asked, ...own.asked]),
    gone, upto,
  };
}

/** Return the events of a part, with their run paths in place of the numbers of these.
 *
 * @param {Conversation} part
 * @returns {AgentEvent[]}
 */
function eventsOf({events, paths}) {
  /** @type {PathEnd[]} */
  const ends = [];
  for (const [before, ...step] of paths) ends.push({before: ends[before] ?? null, step});
  return events.map((each) => ({...each, run_path: ends[each.run_path] ?? null}));
}

/** @param {Conversation["asked"]} asked */
function byId(asked) {
  return new Map(asked.map((each) => [each.question.id, each]));
}

/** Return the items of a conversation: turns, messages of the user, and events with their tool results.
 *
 * @param {Talk} talk
 * @returns {TalkItem[]}
 */
export function talkItems({sent, events}) {
  const added = sent.filter((each) => !each.is_input);
  const edits = new Map(added.flatMap((each) => each.messages.map((one) => [one.id, one])));
  /** @type {Map<number, TalkItem[]>} */
  const turns = new Map();
  /** @param {number} turn */
  const itemsOf = (turn) => {
    const items = turns.get(turn) ?? [];
    if (!turns.has(turn)) turns.set(turn, items);
    return items;
  };
  for (const each of sent) {
    if (each.is_input) itemsOf(each.turn).push(...inputItems(each, edits));
  }
  /** @type {Map<string, TalkCall>} */
  const open = new Map(); // calls without a result, by turn, address and id
  let last = /** @type {(TalkItem & {kind: "event"}) | null} */ (null);
  for (const event of events) {
    const turn = event.turn ?? 0;
    while (added.length && added[0].after < (event.cursor ?? "") && added[0].turn <= turn) {
      itemsOf(added[0].turn).push(...addedItems(/** @type {Sent} */ (added.shift()), edits));
    }
    const activation = `${turn} ${event.address}`;
    const call = open.get(`${activation} ${resultOf(event)}`);
    if (call) {
      call.result = event;
      open.delete(`${activation} ${resultOf(event)}`);
      continue;
    }
    const calls = callsOf(event);
    for (const each of calls) open.set(`${activation} ${each.call.id}`, each);
    const before = last;
    last = {key: event.id, turn, kind: "event", event, calls, isFirst: true, isLast: true};
    if (before && activation === `${before.turn} ${before.event.address}`) {
      before.isLast = last.isFirst = false;
    }
    itemsOf(turn).push(last);
  }
  for (const each of added) itemsOf(each.turn).push(...addedItems(each, edits));
  return [...turns.keys()].sort((a, b) => a - b).flatMap((turn) => {
    const items = itemsOf(turn);
    return [{key: `turn-${turn}`, turn, kind: "turn", time: timeOf(sent, turn)}, ...items];
  });
}

/** Return the start time of a turn: if its input was edited before its first step, the later one.
 *
 * @param {Sent[]} sent
 * @param {number} turn
 */
function timeOf(sent, turn) {
  const input = sent.find((each) => each.turn === turn && each.is_input);
  const edit = sent.find((each) => !each.is_input && each.turn === turn && each.after === input?.after);
  return (edit ?? input)?.time ?? null;
}

/**
 * @param {Sent} sent
 * @param {Map<string | null, Message>} edits
 * @returns {TalkItem[]}
 */
function inputItems({turn, at, messages, values}, edits) {
  const items = messages.map((each, i) => {
    const edited = edits.get(each.id);
    if (edited) edits.delete(each.id);
    const message = edited ?? each;
    return /** @type {TalkItem} */ (
      {key: `${at}-${i}`, turn, kind: "sent", message, isInput: true, isEdited: Boolean(edited)}
    );
  });
  return [...items, ...valuesItems(turn, at, values)];
}

/**
 * @param {number} turn
 * @param {string} at
 * @param {Values} values
 * @returns {TalkItem[]}
 */
function valuesItems(turn, at, values) {
  return Object.keys(values).length ? [{key: `${at}=`, turn, kind: "set", values}] : [];
}

/**
 * @param {Sent} sent
 * @param {Map<string | null, Message>} edits messages that replace none of the shown ones
 * @returns {TalkItem[]}
 */
function addedItems({turn, at, messages, values}, edits) {
  const items = messages
    .filter((each) => edits.has(each.id))
    .map((message, i) => /** @type {TalkItem} */ (
      {key: `${at}+${i}`, turn, kind: "sent", message, isInput: false, isEdited: false}
    ));
  return [...items, ...valuesItems(turn, at, values)];
}

/** @param {AgentEvent} event */
function messageOf({output}) {
  return output?.message ?? null;
}

/** Return the id of the call whose result an event is; null for other events.
 *
 * @param {AgentEvent} event
 * @returns {string | null}
 */
function resultOf(event) {
  const message = messageOf(event);
  return message?.type === "tool" ? String(message.data.tool_call_id) : null;
}

/**
 * @param {AgentEvent} event
 * @returns {TalkCall[]}
 */
function callsOf(event) {
  const calls = messageOf(event)?.data.tool_calls ?? [];
  return calls.map((/** @type {TalkCall["call"]} */ call) => ({call, result: null}));
}

/** Return the text of a message.
 *
 * @param {MessageData} message
 */
export function textOf({data: {content}}) {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((each) => (typeof each === "string" ? each : (each?.text ?? ""))).join("");
}

/** Return the blocks of a message that are not text, such as pictures.
 *
 * @param {MessageData} message
 * @returns {unknown[]}
 */
export function blocksOf({data: {content}}) {
  if (!Array.isArray(content)) return [];
  return content.filter((each) => typeof each === "object" && each?.type !== "text");
}

// the list of events

/** Return the event without what the page adds: the form of `AgentEvent.to_dict`.
 *
 * @param {AgentEvent} event
 */
export function plainEvent({kind: _, ...event}) {
  const path = [];
  for (let end = event.run_path; end; end = end.before) path.push(end.step);
  return {...event, run_path: path.reverse()};
}

/** Describe the content of an event in one line.
 *
 * @param {AgentEvent} event
 * @returns {string}
 */
export function gistOf(event) {
  const {output, action, error} = event;
  if (error !== null) return error;
  if (output?.message) {
    const calls = callsOf(event).map(({call}) => `calls ${call.name}(${JSON.stringify(call.args)})`);
    return [textOf(output.message), ...calls].filter(Boolean).join(" · ");
  }
  return output ? jsonOf(output.custom) : actionGist(action);
}

/** @param {AgentEvent["action"]} action */
function actionGist(action) {
  const {interrupted, default: late, transfer_to: target, chosen, values, custom} = action ?? {};
  if (interrupted) return jsonOf(interrupted.value);
  if (late) return jsonOf(late.answer);
  if (values) return Object.keys(values).join(", ");
  return target ?? chosen ?? jsonOf(custom);
}

/** @param {unknown} data */
function jsonOf(data) {
  return data === null || data === undefined ? "" : JSON.stringify(data);
}

/** Return the events of an agent and a kind whose data contain a word.
 *
 * @param {AgentEvent[]} events
 * @param {{agent?: string, kind?: string, word?: string}} wanted
 */
export function filteredEvents(events, {agent = "", kind = "", word = ""}) {
  const part = word.toLowerCase();
  return events.filter((each) => (
    (!agent || each.agent_name === agent)
    && (!kind || each.kind === kind)
    && (!part || searchedText(each).includes(part))
  ));
}

/** @type {WeakMap<AgentEvent, string>} */
const searched = new WeakMap();

/** @param {AgentEvent} event */
function searchedText(event) {
  const {run_path: _, ...rest} = event;
  const known = searched.get(event) ?? JSON.stringify(rest).toLowerCase();
  searched.set(event, known);
  return known;
}
