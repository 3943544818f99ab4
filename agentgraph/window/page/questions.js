// The open questions as forms, which are answered one by one or together.
//
// Typed texts stay. The card of a question is kept when updates arrive, when the question is closed
// (another window answered it), and when another thread is opened.

import {el, focusIn, longText, newId, setText, timeText} from "./elements.js";
import {actionButton, refusal} from "./entries.js";
import {faultsIn, inputIn, questionForm, questionRest, questionText, showFaults} from "./forms.js";
import {lookAt} from "./looking.js";
import {dataView} from "./messages.js";

/** @import {Backend, CallError, Changed, State, Store} from "./page.d.ts" */
/** @import {Data, Question, Status, Values} from "./shapes.d.ts" */

const MOST_CARDS = 300; // maximum number of stored cards, over all threads

/** @typedef {ReturnType<typeof makeCard>} Card */

/** Make the panel of the open thread's questions.
 *
 * @param {Store} store
 * @param {Backend} backend
 * @param {{scope?: HTMLElement, slotOf?: (id: string) => HTMLElement | null}} [places] an element that
 *   contains the panel, and the places in it of questions that are not shown in the panel
 */
export function makeQuestions(store, backend, {scope, slotOf = () => null} = {}) {
  const headingId = newId("questions");
  const heading = el("h2", {id: headingId, tabindex: "-1"}, "Questions");
  const count = el("p", {class: "quiet", role: "status"});
  const list = el("div", {class: "cards"});
  const fault = refusal();
  const sendMany = actionButton("", () => send(chosen()), {class: "primary", hidden: true});
  const node = el(
    "section",
    {class: "questions", "aria-labelledby": headingId},
    heading,
    count,
    list,
    fault.node,
    sendMany,
  );
  /** @type {Map<string, Card>} */
  const cards = new Map(); // by thread and id

  const around = scope ?? list;
  around.addEventListener("submit", (event) => {
    const several = shown().filter((card) => card.node.contains(/** @type {Node} */ (event.target)));
    if (!several.length) return;
    event.preventDefault();
    send(several);
  });
  around.addEventListener("input", showSendMany);
  around.addEventListener("change", showSendMany);

  function shown() {
    return [...cards.values()].filter((card) => around.contains(card.node));
  }

  function open() {
    return shown().filter((card) => card.isOpen());
  }

  /** Return the cards that the common button sends: the filled-in ones, or all if none is filled in. */
  function chosen() {
    const touched = open().filter((card) => card.isTouched);
    return touched.length ? touched : open();
  }

  function showSendMany() {
    const all = open().length;
    const number = chosen().length;
    sendMany.hidden = all < 2;
    setText(
      sendMany,
      number === all ? `Answer all ${all} questions` : `Answer ${number} of ${all} questions`,
    );
  }

  /** @param {Card[]} several */
  async function send(several) {
    fault.say("");
    /** @type {Values} */
    const answers = {};
    let isReadable = several.length > 0;
    for (const card of several) {
      card.say("");
      const answer = card.read();
      if (answer.error) {
        if (isReadable) card.focus();
        isReadable = false;
      } else answers[card.question.id] = answer.value ?? null;
    }
    const {threadId} = store.state;
    if (!isReadable || !threadId) return;
    for (const card of several) card.setBusy(true);
    try {
      await backend.call("answer", {thread_id: threadId, answers});
      for (const card of several) card.setSent(answers[card.question.id]);
      (open()[0] ?? heading).focus();
    } catch (error) {
      for (const card of several) card.setBusy(false);
      showError(several, error);
    }
    showSendMany();
  }

  /** Show the error of rejected answers, at their questions or below all questions.
   *
   * @param {Card[]} several
   * @param {CallError} error
   */
  function showError(several, {message, questions = {}}) {
    /** @param {Card} card */
    const isAbout = (card) => message.includes(` to ${card.question.address} does not fit: `);
    const named = several.filter((card) => questions[card.question.id]);
    for (const card of named) card.showError(questions[card.question.id]);
    if (named.length) return named[0].focusFault();
    const about = several.find(isAbout) ?? (several.length === 1 ? several[0] : null);
    if (!about) return fault.say(message);
    about.showError(message);
    return about.focusFault();
  }

  /**
   * @param {State} state
   * @param {Changed} changed
   */
  function update(state, changed) {
    if (!changed.has("thread") && !changed.has("threadId") && !changed.has("line")) return;
    const {threadId, thread, line} = state;
    if (threadId && !thread && shown().some((card) => card.threadId === threadId)) return;
    const questions = line === null && thread ? thread.pending : [];
    const pending = questions.map((question) => cardFor(threadId ?? "", question));
    const gone = goneCards(threadId, new Set(pending));
    for (const card of pending) card.setPending(thread?.status);
    const focused = focusIn(node);
    const hadFocus = shown().some((card) => card.node.contains(focused));
    place(line === null ? [...pending, ...gone] : pending);
    if (hadFocus && !around.contains(focusIn(node))) heading.focus();
    setText(count, waitingText(pending.length));
    count.classList.toggle("unseen", pending.length === 1); // its card says so
    showSendMany();
    forget();
  }

  /** Return the cards of closed questions with a typed text.
   *
   * @param {string | null} threadId
   * @param {Set<Card>} pending
   */
  function goneCards(threadId, pending) {
    const gone = [];
    for (const [key, card] of cards) {
      if (card.threadId !== threadId || pending.has(card)) continue;
      if (card.isSent()) cards.delete(key);
      card.setGone();
      if (card.isTouched && !card.isSent()) gone.push(card);
    }
    return gone;
  }

  /** Put cards into the list without moving present ones, because a moved card loses the focus.
   *
   * @param {Card[]} wanted
   */
  function place(wanted) {
    for (const card of shown()) if (!wanted.includes(card)) card.node.remove();
    /** @type {Element[]} */
    const nodes = [];
    for (const {node: each, question} of wanted) {
      const slot = slotOf(question.id);
      if (!slot) nodes.push(each);
      else if (each.parentNode !== slot) slot.append(each);
    }
    for (const child of [...list.children]) if (!nodes.includes(child)) child.remove();
    nodes.forEach((each, i) => {
      if (list.children[i] !== each) list.insertBefore(each, list.children[i] ?? null);
    });
  }

  /**
   * @param {string} threadId
   * @param {Question} question
   */
  function cardFor(threadId, question) {
    const key = JSON.stringify([threadId, question.id]);
    const close = () => update(store.state, new Set(["thread"]));
    const card = cards.get(key) ?? makeCard(store, threadId, question, close);
    cards.set(key, card);
    return card;
  }

  /** Drop cards without a typed text, and the oldest ones beyond the maximum. */
  function forget() {
    for (const [key, card] of cards) {
      if (!around.contains(card.node) && (!card.isTouched || cards.size > MOST_CARDS))
        cards.delete(key);
    }
  }

  return {node, update};
}

/** @param {number} number */
function waitingText(number) {
  if (number === 0) return "No open questions";
  return number === 1
    ? "1 open question"
    : `${number} open questions`;
}

/**
 * @param {Store} store
 * @param {string} threadId
 * @param {Question} question
 * @param {() => void} close
 */
function makeCard(store, threadId, question, close) {
  const titleId = newId("question");
  const {value, address, agent_name: name} = question;
  const inner = questionForm(question);
  const fault = refusal();
  const rest = questionRest(value);
  const title = longText(questionText(value), {most: 1500});
  const answer = el("button", {class: "primary"}, "Send answer");
  const fields = el("fieldset", {class: "fields"}, inner.node, fault.node, answer);
  const form = el("form", {novalidate: true}, fields);
  const notice = el("div", {class: "notice", hidden: true});
  const look = actionButton(address, () => lookAt(store, {threadId, address}), {class: "address link"});
  const node = el(
    "article",
    {class: "card", "aria-labelledby": titleId},
    el("div", {class: "asker"}, el("b", {}, name), " ", look),
    title,
    rest === undefined ? null : dataView(rest),
    question.deadline ? el("p", {class: "quiet"}, `Until ${timeText(question.deadline)}`) : null,
    form,
    notice,
  );
  title.id = titleId;
  title.classList.add("question");

  /** @type {string} */
  let mode = "open"; // or "sent", "gone"
  let hasRun = false; // whether the thread has run since the answer was sent
  const card = {node, threadId, question, isTouched: false};
  const touch = () => {
    card.isTouched = true;
    fault.say("");
  };
  fields.addEventListener("input", touch);
  fields.addEventListener("change", touch);

  /**
   * @param {"open" | "sent" | "gone"} next
   * @param {Node[]} notes
   */
  function setMode(next, ...notes) {
    mode = next;
    fields.disabled = next !== "open";
    fields.hidden = next === "sent";
    node.dataset.mode = next;
    notice.replaceChildren(...notes);
    notice.hidden = notes.length === 0;
  }

  const focus = () => (inputIn(inner.node) ?? answer).focus();

  return Object.assign(card, {
    isOpen: () => mode === "open",
    isSent: () => mode === "sent",
    say: fault.say,
    /** @returns {{value?: Data, error?: Error}} */
    read() {
      try {
        return {value: inner.read()};
      } catch (error) {
        fault.say(error.message);
        return {error};
      }
    },
    focus,
    /** @param {boolean} isBusy */
    setBusy(isBusy) {
      fields.disabled = isBusy;
    },
    /** @param {Data} sent */
    setSent(sent) {
      hasRun = false;
      showFaults(inner, []);
      const change = actionButton("Change answer", () => {
        setMode("open");
        focus();
      });
      setMode("sent", el("p", {class: "quiet"}, "Sent:"), dataView(sent ?? null), change);
    },
    /**
     * The question is open, or open again after a run that did not use the answer.
     *
     * @param {Status | undefined} status
     */
    setPending(status) {
      if (mode === "gone") setMode("open");
      if (mode !== "sent") return;
      if (status === "running") hasRun = true;
      else if (hasRun) setMode("open", el("p", {class: "quiet"}, "The question was asked again."));
    },
    setGone() {
      if (mode !== "open") return;

      setMode(
        "gone",
        el("p", {}, "This question is closed. Your text is kept."),
        actionButton("Close question", () => {
          card.isTouched = false;
          close();
        }),
      );
    },
    /** @param {string} message */
    showError(message) {
      const faults = faultsIn(message, address);
      const isAtFields = faults.length > 0 && faults.every(([path]) => path.length);
      if (isAtFields) fault.say("The answer does not fit, see above. The question is still open.", message);
      else fault.say(message);
      showFaults(inner, faults);
    },
    focusFault() {
      const at = /** @type {HTMLElement | null} */ (inner.node.querySelector("[aria-invalid]"));
      (at ?? answer).focus();
    },
  });
}
