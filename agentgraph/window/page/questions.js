// The questions that wait, as forms: answered one by one, or all at once.
//
// What a person typed stays: the card of a question is kept while news come in, when the question is
// gone (another window answered it), and when another thread is looked at.

import {el, longText, newId, setText} from "./elements.js";
import {actionButton, refusal} from "./entries.js";
import {faultsIn, questionForm, questionRest, questionText, showFaults} from "./forms.js";
import {lookAt} from "./looking.js";
import {dataView} from "./messages.js";

const MOST_CARDS = 300; // that are kept, of all threads

/** Make the panel of the questions of the thread that is open. */
export function makeQuestions(store, backend) {
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
  const cards = new Map(); // by thread and id

  list.addEventListener("submit", (event) => {
    event.preventDefault();
    send(shown().filter((card) => card.node.contains(event.target)));
  });
  list.addEventListener("input", showSendMany);
  list.addEventListener("change", showSendMany);

  function shown() {
    return [...cards.values()].filter((card) => card.node.parentNode === list);
  }

  function open() {
    return shown().filter((card) => card.isOpen());
  }

  /** Return the cards that the common button sends: those that are filled in; if none is, all. */
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
      number === all ? `Answer all ${all}` : `Answer the ${number} of ${all} that are filled in`,
    );
  }

  async function send(several) {
    fault.say("");
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
    if (!isReadable) return;
    for (const card of several) card.setBusy(true);
    try {
      await backend.call("answer", {thread_id: store.state.threadId, answers});
      for (const card of several) card.setSent(answers[card.question.id]);
      (open()[0] ?? heading).focus();
    } catch (error) {
      for (const card of several) card.setBusy(false);
      refuse(several, error);
    }
    showSendMany();
  }

  /** Say why answers were refused: at the questions that it is about, or below all. */
  function refuse(several, {message, questions = {}}) {
    const isAbout = (card) => message.includes(` to ${card.question.address} does not fit: `);
    const told = several.filter((card) => questions[card.question.id]);
    for (const card of told) card.refuse(questions[card.question.id]);
    if (told.length) return told[0].focusFault();
    const about = several.find(isAbout) ?? (several.length === 1 ? several[0] : null);
    if (!about) return fault.say(message);
    about.refuse(message);
    return about.focusFault();
  }

  function update(state, changed) {
    if (!changed.has("thread") && !changed.has("threadId") && !changed.has("line")) return;
    const {threadId, thread, line} = state;
    if (threadId && !thread && shown().some((card) => card.threadId === threadId)) return;
    const pending = line === null ? (thread?.pending ?? []) : [];
    const status = thread?.status;
    const wanted = pending.map((question) => cardFor(threadId, question));
    const ids = new Set(wanted);
    for (const [key, card] of cards) {
      if (card.threadId !== threadId || ids.has(card)) continue;
      if (card.isSent()) cards.delete(key);
      card.setGone();
      if (card.isTouched && !card.isSent() && line === null) wanted.push(card);
    }
    for (const card of wanted) if (ids.has(card)) card.setPending(status);
    const hadFocus = list.contains(node.getRootNode().activeElement);
    place(wanted);
    if (hadFocus && !list.contains(node.getRootNode().activeElement)) heading.focus();
    const waiting = pending.length;
    setText(count, waitingText(waiting));
    showSendMany();
    forget();
  }

  /** Put cards into the list, without moving those that are there: that would take the focus away. */
  function place(wanted) {
    const nodes = wanted.map((card) => card.node);
    for (const child of [...list.children]) if (!nodes.includes(child)) child.remove();
    nodes.forEach((each, i) => {
      if (list.children[i] !== each) list.insertBefore(each, list.children[i] ?? null);
    });
  }

  function cardFor(threadId, question) {
    const key = JSON.stringify([threadId, question.id]);
    if (!cards.has(key)) {
      const close = () => update(store.state, new Set(["thread"]));
      cards.set(key, makeCard(store, threadId, question, close));
    }
    return cards.get(key);
  }

  /** Forget cards in which nothing was typed, and the oldest of too many. */
  function forget() {
    for (const [key, card] of cards) {
      if (card.node.parentNode !== list && (!card.isTouched || cards.size > MOST_CARDS))
        cards.delete(key);
    }
  }

  return {node, update};
}

function waitingText(number) {
  if (number === 0) return "No question waits for an answer.";
  return number === 1
    ? "A question waits for an answer."
    : `${number} questions wait for answers.`;
}

function makeCard(store, threadId, question, close) {
  const titleId = newId("question");
  const {value, address, agent_name: name} = question;
  const inner = questionForm(question);
  const fault = refusal();
  const rest = questionRest(value);
  const text = questionText(value);
  const answer = el("button", {class: "primary"}, "Answer");
  const fields = el("fieldset", {class: "fields"}, inner.node, fault.node, answer);
  const form = el("form", {novalidate: true}, fields);
  const notice = el("div", {class: "notice", hidden: true});
  const look = actionButton(address, () => lookAt(store, {threadId, address}), {class: "address link"});
  const node = el(
    "article",
    {class: "card", "aria-labelledby": titleId},
    el("div", {class: "asker"}, el("b", {}, name), " ", look),
    longText(text, {most: 1500}),
    rest === undefined ? null : dataView(rest),
    form,
    notice,
  );
  node.querySelector(".long").id = titleId;
  node.querySelector(".long").classList.add("question");

  let mode = "open"; // or "sent", "gone"
  let hasRun = false; // since it was sent
  const card = {node, threadId, question, isTouched: false};
  const touch = () => {
    card.isTouched = true;
  };
  fields.addEventListener("input", touch);
  fields.addEventListener("change", touch);

  function setMode(next, ...notes) {
    mode = next;
    fields.disabled = next !== "open";
    fields.hidden = next === "sent";
    node.dataset.mode = next;
    notice.replaceChildren(...notes);
    notice.hidden = notes.length === 0;
  }

  return Object.assign(card, {
    isOpen: () => mode === "open",
    isSent: () => mode === "sent",
    say: fault.say,
    read() {
      try {
        return {value: inner.read()};
      } catch (error) {
        fault.say(error.message);
        return {error};
      }
    },
    focus: () => (inner.node.querySelector("input, textarea, select") ?? answer).focus(),
    setBusy(isBusy) {
      fields.disabled = isBusy;
    },
    setSent(sent) {
      hasRun = false;
      showFaults(inner, []);
      const change = actionButton("Answer again", () => {
        setMode("open");
        card.focus();
      });
      setMode("sent", el("p", {class: "quiet"}, "Sent:"), dataView(sent ?? null), change);
    },
    /** It waits, perhaps again: after a run that did not take the answer. */
    setPending(status) {
      if (mode === "gone") setMode("open");
      if (mode !== "sent") return;
      if (status === "running") hasRun = true;
      else if (hasRun) setMode("open", el("p", {class: "quiet"}, "It is asked again."));
    },
    setGone() {
      if (mode !== "open") return;
      const told =
        "It is no longer asked: it was answered elsewhere, or dropped. What you typed stays here.";
      setMode(
        "gone",
        el("p", {}, told),
        actionButton("Close", () => {
          card.isTouched = false;
          close();
        }),
      );
    },
    refuse(message) {
      const faults = faultsIn(message, address);
      const isAtFields = faults.length > 0 && faults.every(([path]) => path.length);
      if (isAtFields) fault.say("It does not fit, see above. The question is still open.", message);
      else fault.say(message);
      showFaults(inner, faults);
    },
    focusFault: () => (inner.node.querySelector("[aria-invalid]") ?? answer).focus(),
  });
}
