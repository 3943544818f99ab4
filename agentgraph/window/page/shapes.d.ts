/**
 * The JSON data of the server, made by `window/calls.py`, `window/updates.py` and `window/shapes.py`.
 * `tests/page/shapes.test.js` checks these types against the data of a real server.
 *
 * Times are seconds since 1970. `Data` is any JSON, made by a user's tree. A value outside of JSON is
 * `{"$agentgraph": [tag, content]}`: see `events/json_forms.py`.
 */

export type Data = any;
export type Values = {[name: string]: Data};

export type Status = "new" | "running" | "paused" | "failed" | "stopped" | "done";
export type ActivationStatus = "running" | "asks" | "failed" | "done" | "stopped";
export type BarState = ActivationStatus | "void";
export type BarKind = "agent" | "model" | "tool" | "hook" | "question";
export type AgentKind =
  | "chat" | "function" | "human" | "graph" | "node" | "sequential" | "loop" | "parallel" | "workflow"
  | "each" | "switch" | "swarm";

/** A place of the tree. */
export interface TreeNode {
  id: string;
  name: string;
  kind: AgentKind;
  /** Its kind with details, such as "chat, openai:gpt-5"; empty for nodes of a graph. */
  about: string;
  /** Maximum number of iterations of a loop. */
  most: number | null;
  /** Whether another agent runs the place: as a tool, for an item, or by `ctx.run`. */
  is_called: boolean;
  /** The name of the value with the item, of an `each`. */
  item: string | null;
  /** The ids of the workflow steps that the step depends on. */
  needs: string[];
  /** The id of the workflow step that the place undoes. */
  undoes: string | null;
  children: TreeNode[];
}

export interface About {
  title: string;
  /** The version of agentgraph. */
  version: string;
  /** The name of the tree in `trees`. */
  name: string;
  /** The names of the trees of the page; empty for a tree that no files define. */
  trees: string[];
  tree: TreeNode;
  can_reload: boolean;
  is_read_only: boolean;
  /** The runtime context of runs; null without a context schema. */
  context: {schema: Schema; values: Values | null} | null;
  /** Whether the cost of replies is known, so that it can be limited. */
  has_prices: boolean;
  /** The limits of a turn that sets no others; a cost is a text. */
  limits: Limits;
  has_changed: boolean;
}

/** A likely mistake in the tree, from `lint`. */
export interface Finding {
  kind: string;
  address: string;
  problem: string;
  advice: string;
  /** The addresses of the agents that run until the mistake shows. */
  way: string[];
  /** The id of the agent's place in the tree. */
  place: string | null;
}

/** The names of the values that a run may set, and the present short values of a thread. */
export interface KnownValues {
  names: string[];
  values: Values;
}

export interface Usage {
  input: number | null;
  output: number | null;
}

/** A JSON schema, as far as forms support it; other parts become JSON fields. */
export interface Schema {
  $ref?: string;
  $defs?: {[name: string]: Schema};
  title?: string;
  description?: string;
  type?: string | string[];
  format?: string;
  const?: Data;
  default?: Data;
  enum?: Data[];
  allOf?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  properties?: {[name: string]: Schema};
  required?: string[];
  items?: Schema | boolean;
  minItems?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  multipleOf?: number;
}

/** A question, open or answered. */
export interface Question {
  id: string;
  address: string;
  agent_name: string;
  value: Data;
  response_schema: Schema | null;
  /** Until when an answer counts, in seconds since 1970. */
  deadline: number | null;
}

export interface Turn {
  number: number;
  /** The texts of the user. */
  texts: string[];
  began: number;
  ended: number | null;
}

/** The status of a thread. */
export interface Thread {
  thread_id: string;
  status: Status;
  pending: Question[];
  /** The questions whose answers the next run takes. */
  answered: {question: Question; answer: Data}[];
  /** The texts of queued messages. */
  queued: string[];
  /** The last turns. */
  turns: Turn[];
  usage: Usage;
  spent: number | null;
  /** The cost of the last turn, or "unknown"; null without prices. */
  cost: string | null;
  /** The last text. */
  last: string;
  /** The number of its history lines. */
  lines: number;
  /** The effect of a changed tree on the thread; null if the thread can resume. */
  changed: string | null;
  is_whole: boolean;
  updated: number;
}

/** A thread as a row of the list. */
export interface ThreadRow {
  thread_id: string;
  status: Status | "unreadable";
  began: number | null;
  updated: number;
  first: string;
  last: string;
  /** The number of open questions. */
  pending: number;
  tokens: number | null;
  error: string | null;
  /** The name of the root of the tree that ran it last; null if it is not known. */
  tree: string | null;
}

export interface Threads {
  threads: ThreadRow[];
  /** The number of all threads; with a search or a status, the number of those in this answer. */
  total: number;
  /** Whether there may be further threads. */
  more?: boolean;
  /** Whether there are threads of other trees. */
  others?: boolean;
}

/** An activation, a call or a question on the timeline of a thread. */
export interface Bar {
  id: string;
  turn: number;
  address: string;
  agent_name: string;
  kind: BarKind;
  label: string;
  node: string;
  step: string;
  iteration: number | null;
  began: number;
  ended: number | null;
  state: BarState;
  tokens_in: number;
  tokens_out: number;
  text: string;
  /** The id of the enclosing bar. */
  inside: string | null;
  /** The id of its place in the tree; null if the tree has none. */
  place: string | null;
}

export interface Timeline {
  bars: Bar[];
  /** The times without an active run, from the end of a run to its resume. */
  pauses: [began: number, ended: number][];
  /** The value for `since`. */
  upto: string;
  /** Whether `bars` has only the bars that are new or changed after `since`. */
  continues: boolean;
  /** Whether nothing ran before `bars`; missing if `bars` continue others. */
  is_whole?: boolean;
}

export type EventKind =
  | "message" | "custom" | "exit" | "break_loop" | "transfer_to" | "chosen" | "values" | "interrupted"
  | "default" | "discarded" | "action" | "error";

/** A message in LangChain's form. */
export interface MessageData {
  type: string;
  data: Values;
}

/** The last step of a run path; paths share their beginnings. */
export interface PathEnd {
  before: PathEnd | null;
  step: [name: string, iteration: number | null];
}

/** An event in the form of `AgentEvent.to_dict`, but for its run path, with its kind. */
export interface AgentEvent {
  kind: EventKind;
  agent_name: string;
  run_path: PathEnd | null;
  address: string;
  output: {message: MessageData | null; custom: Data; partial: boolean} | null;
  action: {
    exit: boolean;
    break_loop: boolean;
    transfer_to: string | null;
    chosen: string | null;
    values: Values | null;
    interrupted: Question | null;
    default: {id: string; answer: Data; deadline: number} | null;
    discarded: string[];
    custom: Data;
  } | null;
  error: string | null;
  id: string;
  thread_id: string | null;
  turn: number | null;
  step: string | null;
  cursor: string | null;
  time: number | null;
  call?: {message: number; place: number; id: string};
}

/** Messages of the user, and the values that were set with them. */
export interface Sent {
  /** The checkpoint that has them. */
  at: string;
  turn: number;
  /** The cursor of the last event before they were read. */
  after: string;
  time: number;
  /** Whether they started the turn; otherwise a rewind added them, or replaced others. */
  is_input: boolean;
  messages: Message[];
  values: Values;
}

/** A part of the conversation on a thread: see `reports/conversation.py`. */
export interface Conversation {
  sent: Sent[];
  /** Each with the number of its run path in `paths`; -1 for an empty one. */
  events: (Omit<AgentEvent, "run_path"> & {run_path: number})[];
  /** Run paths, each with the number of the path before its last step, or -1. */
  paths: [before: number, name: string, iteration: number | null][];
  asked: AskedQuestion[];
  /** The ids and steps of earlier events that the part discards. */
  discarded: string[];
  /** The value for `before`. */
  begin: string;
  /** The cursor of the last event before the part. */
  after: string;
  /** The value for `since`. */
  upto: string;
  is_whole: boolean;
  continues: boolean;
}

export interface Line {
  head: string;
  is_present: boolean;
  /** The address at which it branches off the current line; empty for the current line. */
  parts_at: string;
  turn: number;
  time: number;
}

export interface ToolCall {
  name: string;
  args: Values;
  id: string | null;
}

export interface Message {
  role: string;
  name: string | null;
  text: string;
  tool_calls: ToolCall[];
  id: string | null;
  extra: Values;
}

/** A tool call of an activation, or an agent that it ran. */
export interface ToolRun {
  name: string;
  args: Values;
  id: string;
  result: string | null;
  status: "done" | "failed" | "rejected" | "waits";
  began: number | null;
  ended: number | null;
}

export interface AskedQuestion {
  question: Question;
  answer: Data;
  is_answered: boolean;
  /** Whether the deadline passed without an answer of a person. */
  is_late: boolean;
  /** The step that asked it. */
  step: string;
}

/** An earlier attempt of an activation, or the same activation on another line. */
export interface Attempt {
  step: string;
  status: ActivationStatus;
  error: string | null;
  line: string | null;
  text: string;
}

/** One activation in detail. */
export interface Activation {
  address: string;
  agent_name: string;
  kind: AgentKind;
  turn: number;
  iteration: number | null;
  steps: string[];
  began: number | null;
  ended: number | null;
  status: ActivationStatus;
  error: string | null;
  signal: string | null;
  remarks: string[];
  /** The names of the values that the activation changed. */
  changed: string[];
  saw: Message[];
  said: Message[];
  tools: ToolRun[];
  values_before: Values;
  values_after: Values;
  usage: {input: number; output: number};
  questions: AskedQuestion[];
  attempts: Attempt[];
}

/** One side of a compared activation. */
export interface Side {
  text: string;
  values: Values;
  signal: string | null;
  error: string | null;
  tokens: number;
  seconds: number | null;
  step: string;
  /** The answers to its questions; null for one without an answer. */
  answers: Data[];
}

export interface Difference {
  address: string;
  agent_name: string;
  turn: number;
  where: "both" | "left" | "right";
  same: boolean;
  differs: ("said" | "called" | "values" | "signal" | "asked" | "answered" | "error")[];
  place: string | null;
  left: Side | null;
  right: Side | null;
}

export type Limits = {[name: string]: number | string};

/** The changes before a rerun. */
export interface Changes {
  values?: Values;
  text?: string;
  /** The id of the message that `text` replaces. */
  replaces?: string;
  answers?: Values;
  siblings?: "keep" | "rerun";
}

/** An activation: an address with its turn, or a step; of an older line, if `line` is set. */
export interface Spot {
  thread_id: string;
  at: string;
  turn?: number;
  line?: string;
}

type OfThread = {thread_id: string};

/** The spending of an agent at one place of the tree, in one turn, and with the agents inside. */
export interface Frame {
  path: string;
  agent_name: string;
  depth: number;
  times: number;
  seconds: number;
  tokens: number;
  cost: string | null;
  waiting: number;
  own_seconds: number;
  own_tokens: number;
  own_cost: string | null;
  own_waiting: number;
}

export interface Flame {
  turn: number;
  frames: Frame[];
}

/** The calls by name: their arguments and their answers. */
export interface Calls {
  about: [{thread_id?: string}, About];
  findings: [{}, {findings: Finding[]}];
  values: [{thread_id?: string}, KnownValues];
  threads: [
    {search?: string; limit?: number; status?: string; before?: string; others?: boolean}, Threads,
  ];
  thread: [OfThread & {line?: string}, Thread];
  timeline: [OfThread & {since?: string; last?: number; line?: string}, Timeline];
  conversation: [
    OfThread & {since?: string; before?: string; steps?: number | null; line?: string},
    Conversation,
  ];
  flame: [OfThread & {turn?: number}, Flame];
  activation: [Spot, Activation];
  lines: [OfThread, {lines: Line[]}];
  compare: [OfThread & {other?: string; line?: string; other_line?: string}, {rows: Difference[]}];
  start: [
    {
      text: string;
      thread_id?: string;
      while_running?: "refuse" | "queue" | "steer";
      values?: Values;
      drop_pending?: boolean;
      limits?: Limits;
      context?: Values;
    },
    OfThread,
  ];
  answer: [OfThread & {answers: Values; limits?: Limits; context?: Values}, OfThread];
  resume: [OfThread & {limits?: Limits; values?: Values; context?: Values}, OfThread];
  rewind: [
    OfThread & {at: string; turn?: number; changes?: Changes; limits?: Limits; context?: Values},
    OfThread,
  ];
  restart: [OfThread & {turn: number; text?: string; replaces?: string; context?: Values}, OfThread];
  fork: [
    OfThread & {at: string; turn?: number; variants: {[name: string]: Changes}; context?: Values},
    {threads: {[name: string]: string}},
  ];
  stop: [OfThread, {}];
  steer: [OfThread & {text: string}, {ids: string[]}];
  delete: [OfThread, {}];
  copy: [OfThread & {to: string; at?: string; turn?: number}, OfThread];
  reload: [{}, {changed: boolean; about: About; error: string | null; waits: boolean}];
}

/** The updates of a thread: their data by kind. */
export interface News {
  thread: Thread;
  /** `gone` has the ids of removed bars. */
  timeline: Timeline & {gone: string[]};
  /** A chunk of a streamed message, or all of it so far. */
  text: {address: string; place: string | null; id: string; text: string; is_whole: boolean};
  failed: {error: string; detail: string};
}

/** The error of a call; `questions` has the fault of each answer that does not fit, by id. */
export interface Refusal {
  error: string;
  detail: string;
  questions?: {[id: string]: string};
}
