/** What the modules of the page pass to each other. What the server sends is in `shapes.d.ts`. */

import type {
  About, Bar as SentBar, BarKind, BarState, Calls, News, Spot, Thread, Threads, TreeNode,
} from "./shapes.d.ts";

/** A bar; `place_kind` is added by the timeline. */
export type Bar = SentBar & {place_kind?: TreeNode["kind"]};

// the backend: see backend.js

/** An error of a call; `kind` is the name of the server's error, or "lost". */
export type CallError = Error & {kind?: string; status?: number; questions?: {[id: string]: string}};

/** What a follower hears: the news, and how the connection stands. */
export interface Heard extends News {
  lost: {text: string; isForGood: boolean};
  found: undefined;
}
export type Hear = <K extends keyof Heard>(kind: K, data?: Heard[K]) => void;

export interface Backend {
  call<N extends keyof Calls>(name: N, args?: Calls[N][0]): Promise<Calls[N][1]>;
  /** Follow a thread; returns a function that ends it. */
  follow(thread: string, since: string | null, hear: Hear): () => void;
}

// the store: see store.js

export interface State {
  about: About | null;
  threads: Threads | null;
  /** The word that threads are searched for. */
  search: string;
  /** The status of the threads that are listed; empty for all. */
  status: string;
  threadId: string | null;
  /** An older line of the thread that is looked at; null for the present one. */
  line: string | null;
  /** The id of a thread that was told to stop and still runs. */
  stopping: string | null;
  thread: Thread | null;
  bars: Map<string, Bar>;
  /** Whether all that ran is in `bars`. */
  isWhole: boolean;
  /** What agents are saying: by address, the text so far. */
  texts: Map<string, string>;
  /** The same for the tree: by the place's id, the text of its latest activation. */
  saying: Map<string, string>;
  /** The id of the bar that is selected. */
  selected: string | null;
  /** What is looked at while it has no bar. */
  target: Target | null;
  /** Which turn the tree shows; null for the last, -1 for all. */
  turn: number | null;
  /** Which iteration, hop, item or call the tree shows: by the place's id. */
  picks: Map<string, string>;
  /** Set when a person wants to run something again. */
  wantsAgain: boolean;
  isConnected: boolean;
  /** Why the connection is lost. */
  lostText: string;
  /** What was refused last. */
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
  select(id: string | null): void;
  loadOlder(): Promise<void>;
  refreshAbout(): Promise<void>;
  refreshThreads(): Promise<void>;
  find(search: string, status?: string): Promise<void>;
  listMore(): Promise<void>;
  want<N extends keyof Calls>(name: N, args?: Calls[N][0]): Promise<Calls[N][1] | undefined>;
  close(): void;
}

// entries: see entries.js

/** An entry of a list: its key, its data, and what makes its node. */
export type Entry = [key: string | number, data: unknown, make: () => HTMLElement];

// forms: see forms.js

/** A field of a form, or a form; `read` may throw an error for people. */
export interface Field {
  node: HTMLElement;
  read(): any;
  find(path: string[]): HTMLElement;
}

/** A fault of an answer: the path of its field, and why. */
export type Fault = [path: string[], why: string];

// the tree: see activations.js

/** A part of an address, as "writer(2)[0]". */
export interface AddressPart {
  name: string;
  call: string | null;
  key: string | null;
  attempt: number | null;
  count: number | null;
}

export type Counter = "iteration" | "hop" | "item" | "call";

export interface Place {
  node: TreeNode;
  parent: Place | null;
  depth: number;
  /** What tells the activations of the place apart. */
  counter: Counter | null;
}

export type Places = Map<string, Place>;
export type ShownState = BarState | "idle";

/** One iteration, hop, item or call of a place. */
export interface Count {
  state: ShownState;
  key: string | null;
  own: Bar | null;
}

/** How a place stands. */
export interface Standing {
  runs: number;
  seconds: number;
  tokens: number;
  state: ShownState;
  last: Bar | null;
  counts: Map<string, Count>;
}

export type Standings = Map<string, Standing>;

/** What the boxes of the tree show beside how their places stand. */
export interface TreeLook {
  selectedPlace: string | null | undefined;
  saying: State["saying"];
  picks: State["picks"];
}

/** What the boxes of the tree ask for. */
export interface TreeActs {
  placeOf(id: string): Place;
  isOpen(id: string): boolean;
  setOpen(id: string, isOpen: boolean): void;
  toggled(): void;
  select(bar: Bar): void;
  pick(id: string, count: string | null): void;
}

// the timeline: see rows.js and view.js

/** A bar in the timeline; `ended` is Infinity for what still runs or waits, or was killed. */
export interface Item {
  bar: Bar;
  label: string;
  kind: BarKind;
  state: BarState;
  began: number;
  ended: number;
  row: number;
  /** The rows between it and what encloses it. */
  offset: number;
  /** Its number in its row. */
  number: number;
  children: Item[];
}

export interface Layout {
  /** In the order in which they began. */
  items: Item[];
  rows: Item[][];
  begin: number;
  end: number;
  isOpen: boolean;
  isWaiting: boolean;
}

/** A stretch of the axis of time: from when, at which unit, how many units a second is. */
export interface Piece {
  from: number;
  at: number;
  speed: number;
  /** Until when; the last piece has no end. */
  to: number;
}

export interface Axis {
  toUnits(time: number): number;
  toTime(units: number): number;
  lengthAt(now: number): number;
  waits: Piece[];
}

export interface View {
  layout: Layout;
  mode: "fit" | "follow" | "free";
  /** Whether long waits are left out. */
  isShort: boolean;
  /** The unit at the left of the canvas. */
  left: number;
  /** Pixels for a unit. */
  scale: number;
  readonly waits: Piece[];
  readonly length: number;
  toX(time: number): number;
  toTime(x: number): number;
  timeOf(units: number): number;
  endOf(item: Item): number;
  setBars(bars: Bar[]): void;
  setShort(isShort: boolean): void;
  settle(): void;
  zoom(factor: number, x?: number): void;
  pan(pixels: number): void;
  itemAt(x: number, y: number, top: number): Item | null;
  show(item: Item): void;
}

/** What of the view is painted: its width, the pixels scrolled, and what is marked. */
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
