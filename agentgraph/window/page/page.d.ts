/** The types that the modules of the page share; `shapes.d.ts` has the server's data. */

import type {
  About, AgentEvent, AskedQuestion, Bar as SentBar, BarKind, BarState, Calls, Message, News, Sent, Spot,
  Thread, Threads, ToolCall, TreeNode, Values,
} from "./shapes.d.ts";

/** A bar; `place_kind` is added by the timeline. */
export type Bar = SentBar & {place_kind?: TreeNode["kind"]};

// the backend: see backend.js

/** An error of a call; `kind` is the name of the server's error, or "lost". */
export type CallError = Error & {kind?: string; status?: number; questions?: {[id: string]: string}};

/** The updates for a follower: those of the thread, and those of the connection. */
export interface Received extends News {
  lost: {text: string; isForGood: boolean};
  found: undefined;
}
export type Receive = <K extends keyof Received>(kind: K, data?: Received[K]) => void;

export interface Backend {
  call<N extends keyof Calls>(name: N, args?: Calls[N][0]): Promise<Calls[N][1]>;
  /** Follow a thread; returns a function that ends it. */
  follow(thread: string, since: string | null, receive: Receive): () => void;
}

// the store: see store.js

export interface State {
  about: About | null;
  threads: Threads | null;
  /** The text that listed threads must contain. */
  search: string;
  /** The status of the listed threads; empty for all. */
  status: string;
  /** Whether the threads of other trees are listed, too. */
  others: boolean;
  threadId: string | null;
  /** The open history line of the thread; null for the current one. */
  line: string | null;
  /** The id of a running thread that has been requested to stop. */
  stopping: string | null;
  thread: Thread | null;
  bars: Map<string, Bar>;
  /** The ends of the times without an active run, by their start. */
  pauses: Map<number, number>;
  /** Whether `bars` has all bars of the thread. */
  isWhole: boolean;
  /** The text so far of the message that is streamed, by address. */
  texts: Map<string, string>;
  /** The ids of these messages, by address. */
  streamed: Map<string, string>;
  /** Streamed text of the latest activation, by place id. */
  saying: Map<string, string>;
  /** The id of the selected bar. */
  selected: string | null;
  /** The open activation while it has no bar. */
  target: Target | null;
  /** The turn that the tree shows; null for the last, -1 for all. */
  turn: number | null;
  /** Number of runs that this page has started on the open thread; the views follow them. */
  started: number;
  /** The iteration, transfer, item or call that the tree shows, by place id. */
  picks: Map<string, string>;
  /** Set when a person opens the rewind panel. */
  wantsAgain: boolean;
  /** The shown view of the thread. */
  view: "work" | "talk" | "events" | "agents";
  /** The conversation as far as it has been read. */
  talk: Talk | null;
  isConnected: boolean;
  /** The reason for a lost connection. */
  lostText: string;
  /** The runtime context of new runs, as typed; null for that of the runner. */
  context: Values | null;
  /** The last error of a call. */
  error: {message: string; kind?: string} | null;
}

export interface Target {
  wanted: Spot;
  step?: string;
  address?: string;
  turn?: number;
}

/** The keys of the state that have changed. */
export type Changed = Set<string>;

export interface Panel {
  node: HTMLElement;
  update(state: State, changed: Changed): void;
}

export interface Store {
  state: State;
  set(changes: Partial<State>): void;
  backend: Backend;
  add(panel: Pick<Panel, "update">): void;
  open(threadId: string | null, line?: string | null): void;
  openFirst(): void;
  select(id: string | null): void;
  loadOlder(): Promise<void>;
  refreshAbout(): Promise<void>;
  refreshThreads(): Promise<void>;
  find(search: string, status?: string): Promise<void>;
  listOthers(others: boolean): Promise<void>;
  listMore(): Promise<void>;
  want<N extends keyof Calls>(name: N, args?: Calls[N][0]): Promise<Calls[N][1] | undefined>;
  close(): void;
}

// entries: see entries.js

/** An entry of a list: its key, its data, and the function that makes its node. */
export type Entry = [key: string | number, data: unknown, make: () => HTMLElement];

// forms: see forms.js

/** A field of a form, or a form; `read` may throw an error that the page shows. */
export interface Field {
  node: HTMLElement;
  read(): any;
  find(path: string[]): HTMLElement;
}

/** A fault of an answer: the path of its field, and the text. */
export type Fault = [path: string[], why: string];

// the tree: see activations.js

/** A part of an address, such as "writer(2)[0]". */
export interface AddressPart {
  name: string;
  call: string | null;
  key: string | null;
  attempt: number | null;
  count: number | null;
}

export type Counter = "iteration" | "transfer" | "item" | "call";

export interface Place {
  node: TreeNode;
  parent: Place | null;
  depth: number;
  /** The counter that differs between the activations of the place. */
  counter: Counter | null;
}

export type Places = Map<string, Place>;
export type ShownState = BarState | "idle";

/** One iteration, transfer, item or call of a place. */
export interface Count {
  state: ShownState;
  key: string | null;
  own: Bar | null;
}

/** The status of a place. */
export interface PlaceStatus {
  runs: number;
  /** Seconds in which it worked; of a chat agent also those of the agents that it transferred to. */
  seconds: number;
  /** Seconds in which its own questions waited for answers. */
  waited: number;
  /** The seconds that each of them grows in a second. */
  growing: {seconds: number; waited: number};
  tokens: number;
  state: ShownState;
  last: Bar | null;
  counts: Map<string, Count>;
}

export type PlaceStatuses = Map<string, PlaceStatus>;

/** The data of the tree's boxes in addition to the status of their places. */
export interface TreeLook {
  selectedPlace: string | null | undefined;
  saying: State["saying"];
  picks: State["picks"];
  /** The texts of open questions, by address. */
  questions: Map<string, string>;
}

/** The actions of the tree's boxes. */
export interface TreeActs {
  placeOf(id: string): Place;
  isOpen(id: string): boolean;
  setOpen(id: string, isOpen: boolean): void;
  toggled(): void;
  select(bar: Bar): void;
  pick(id: string, count: string | null): void;
}

// the conversation: see turns.js

/** The read part of a conversation. */
export interface Talk {
  sent: Sent[];
  events: AgentEvent[];
  /** By the ids of the questions. */
  asked: Map<string, AskedQuestion>;
  /** The ids and steps of discarded events. */
  gone: Set<string>;
  begin: string;
  upto: string;
  isWhole: boolean;
}

/** A tool call of a message, with the event of its result. */
export interface TalkCall {
  call: ToolCall;
  result: AgentEvent | null;
}

/** The start of a turn, a message of the user, values that were set, or an event; a result is part of the calling message.
 *
 * `isFirst` and `isLast` are set for the first and the last of several events of one activation.
 */
export type TalkItem = {key: string; turn: number} & (
  | {kind: "turn"; time: number | null}
  | {kind: "sent"; message: Message; isInput: boolean; isEdited: boolean}
  | {kind: "set"; values: Values}
  | {kind: "event"; event: AgentEvent; calls: TalkCall[]; isFirst: boolean; isLast: boolean}
);

// the timeline: see rows.js and view.js

/** A bar in the timeline; `ended` is Infinity for a running, paused or killed one. */
export interface Item {
  bar: Bar;
  label: string;
  kind: BarKind;
  state: BarState;
  began: number;
  ended: number;
  row: number;
  /** The number of rows between the item and its enclosing item. */
  offset: number;
  /** Its index in its row. */
  number: number;
  children: Item[];
}

export interface Layout {
  /** In the order of their start. */
  items: Item[];
  rows: Item[][];
  begin: number;
  end: number;
  isOpen: boolean;
  isWaiting: boolean;
}

/** A piece of the time axis: its start time, its first unit, and the units of a second. */
export interface Piece {
  from: number;
  at: number;
  speed: number;
  /** Its end time; the last piece has none. */
  to: number;
}

/** A hidden wait; `isOpen` if it lasts. */
export type Wait = Piece & {isOpen: boolean};

export interface Axis {
  toUnits(time: number): number;
  toTime(units: number): number;
  lengthAt(now: number): number;
  waits: Wait[];
}

export interface View {
  layout: Layout;
  mode: "fit" | "follow" | "free";
  /** Whether long waits are hidden. */
  isShort: boolean;
  /** The unit at the left of the canvas. */
  left: number;
  /** Pixels of a unit. */
  scale: number;
  readonly waits: Wait[];
  readonly length: number;
  toX(time: number): number;
  toTime(x: number): number;
  endOf(item: Item): number;
  setBars(bars: Bar[]): void;
  setShort(isShort: boolean): void;
  settle(): void;
  zoom(factor: number, x?: number): void;
  pan(pixels: number): void;
  itemAt(x: number, y: number, top: number): Item | null;
  show(item: Item): void;
}

/** The painted part of the view: its width, the scrolled pixels, and the marked bars. */
export interface PaintLook {
  width: number;
  top: number;
  selected: string | null;
  hovered: Item | null;
}

// elements: see elements.js

type Listener = (event: any) => unknown;

/** Attributes of an element; names that begin with "on" are listeners. */
export type Attributes = {[name: string]: string | number | boolean | null | undefined | Listener};

export type Child = Node | string | null | undefined;
