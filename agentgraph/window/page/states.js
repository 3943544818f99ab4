// How threads and activations stand: in a sign, and in words.

/** @type {Record<string, string>} */
export const STATUS_MARKS = {
  running: "●", paused: "?", asks: "?", failed: "✕", stopped: "■", done: "✓", void: "⊘", idle: "○",
  new: "○",
};

/** @type {Record<string, string>} */
export const STATE_WORDS = {
  idle: "has not run", running: "runs", asks: "waits for an answer", failed: "failed",
  stopped: "was stopped", done: "done", void: "was discarded",
};
