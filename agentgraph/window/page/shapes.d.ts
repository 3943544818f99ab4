/**
 * The JSON that the server sends and takes: `window/calls.py`, `window/updates.py` and `window/shapes.py`
 * make it. `tests/page/shapes.test.js` holds these types against what a server really sends.
 *
 * Times are seconds since 1970. `Data` is what a user's tree made: any JSON. A value that JSON lacks is
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
  /** What else its kind says, as "chat, openai:gpt-5"; empty for nodes of a graph. */
  about: string;
  /** The most iterations of a loop. */
  most: number | null;
  /** Whether another agent runs it: as a tool, for an item, or by `ctx.run`. */
  is_called: boolean;
  /** The ids of the steps of a workflow that it runs after. */
  needs: string[];
  /** The id of the step of a workflow that it undoes. */
  undoes: string | null;
  children: TreeNode[];
}

export interface About {
  title: string;
  tree: TreeNode;
  can_reload: boolean;
  is_read_only: boolean;
  has_changed: boolean;
}

export interface Usage {
  input: number | null;
  output: number | null;
}

/** A JSON schema, as far as forms are made of it; what is not understood is asked for as JSON. */
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

/** A question that waits, or that was asked. */
export interface Question {
  id: string;
  address: string;
  agent_name: string;
  value: Data;
  response_schema: Schema | null;
}

export interface Turn {
  number: number;
  /** What the user said. */
  texts: string[];
  began: number;
  ended: number | null;
}

/** How a thread stands. */
export interface Thread {
  thread_id: string;
  status: Status;
  pending: Question[];
  /** The texts of messages that nothing has read. */
  queued: string[];
  /** The last turns. */
  turns: Turn[];
  usage: Usage;
  spent: number | null;
  /** What was said last. */
  last: string;
  /** How many lines it has. */
  lines: number;
  /** What a changed tree means for it; null if it can go on. */
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
  /** How many questions wait. */
  pending: number;
  tokens: number | null;
  error: string | null;
}

export interface Threads {
  threads: ThreadRow[];
  /** How many there are; with a word or a status, how many are here. */
  total: number;
  /** Whether there may be more than these. */
  more?: boolean;
}

/** Something that took time on a thread. */
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
  /** The id of the bar that encloses it. */
  inside: string | null;
  /** The id of its place in the tree; null if the tree has none. */
  place: string | null;
}

export interface Timeline {
  bars: Bar[];
  /** What `since` takes. */
  upto: string;
  /** Whether `bars` are only those that are new or changed since. */
  continues: boolean;
  /** Whether nothing ran before `bars`; missing where they continue others. */
  is_whole?: boolean;
}

export interface Line {
  head: string;
  is_present: boolean;
  /** The address at which it parts from the present line; empty for that one. */
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
  status: "done" | "failed" | "waits";
  began: number | null;
  ended: number | null;
}

export interface AskedQuestion {
  question: Question;
  answer: Data;
  is_answered: boolean;
}

/** An earlier attempt of an activation, or the same one on another line. */
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
  /** The names of the values that it changed. */
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

/** An activation as one of two lines has it. */
export interface Side {
  text: string;
  values: Values;
  signal: string | null;
  error: string | null;
  tokens: number;
  seconds: number | null;
  step: string;
}

export interface Difference {
  address: string;
  agent_name: string;
  turn: number;
  where: "both" | "left" | "right";
  same: boolean;
  differs: ("said" | "called" | "values" | "signal" | "asked" | "error")[];
  place: string | null;
  left: Side | null;
  right: Side | null;
}

export type Limits = {[name: string]: number};

/** What is changed before something runs again. */
export interface Changes {
  values?: Values;
  text?: string;
  /** The id of the message that `text` takes the place of. */
  replaces?: string;
  answers?: Values;
  siblings?: "keep" | "rerun";
}

/** Which activation: an address with its turn, or a step; of an older line, if one is named. */
export interface Spot {
  thread_id: string;
  at: string;
  turn?: number;
  line?: string;
}

type OfThread = {thread_id: string};

/** The calls: by name, what they take and what they return. */
export interface Calls {
  about: [{}, About];
  threads: [{search?: string; limit?: number; status?: string; before?: string}, Threads];
  thread: [OfThread, Thread];
  timeline: [OfThread & {since?: string; last?: number; line?: string}, Timeline];
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
    },
    OfThread,
  ];
  answer: [OfThread & {answers: Values; limits?: Limits}, OfThread];
  resume: [OfThread & {limits?: Limits; values?: Values}, OfThread];
  rewind: [OfThread & {at: string; turn?: number; changes?: Changes; limits?: Limits}, OfThread];
  fork: [
    OfThread & {at: string; turn?: number; variants: {[name: string]: Changes}},
    {threads: {[name: string]: string}},
  ];
  stop: [OfThread, {}];
  steer: [OfThread & {text: string}, {ids: string[]}];
  delete: [OfThread, {}];
  copy: [OfThread & {to: string; at?: string; turn?: number}, OfThread];
  reload: [{}, {changed: boolean; about: About; error: string | null; waits: boolean}];
}

/** The news of a thread: by kind, its data. */
export interface News {
  thread: Thread;
  /** `gone` has the ids of bars that are no more. */
  timeline: Timeline & {gone: string[]};
  text: {address: string; place: string | null; id: string; text: string};
  failed: {error: string; detail: string};
}

/** Why a call was refused. `questions` says it for each answer that does not fit, by its id. */
export interface Refusal {
  error: string;
  detail: string;
  questions?: {[id: string]: string};
}
