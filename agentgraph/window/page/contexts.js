// The form for the runtime context of runs. It is not saved, so the page sends it with each run.

import {el} from "./elements.js";
import {actionButton, refusal} from "./entries.js";
import {fieldFor} from "./forms.js";

/** @import {Field, Store} from "./page.d.ts" */
/** @import {About, Values} from "./shapes.d.ts" */

/** Make the form for the context: {node, show}; what a person types is the `context` of the store.
 *
 * @param {Store} store
 */
export function contextForm(store) {
  const place = el("div");
  const fault = refusal();
  const reset = actionButton("Reset context", () => store.set({context: null}));
  const node = el("details", {class: "context", hidden: true},
    el("summary", {}, "Context"),
    el("p", {class: "quiet"}, "Runs that this page starts or resumes have this context. It is not saved."),
    place, fault.node, reset);
  /** @type {About["context"]} */
  let about = null;
  /** @type {Field | null} */
  let field = null;
  let shown = "null";
  let own = "null"; // the context of the store that the fields show, as JSON

  /** @param {Values | null} typed */
  function build(typed) {
    if (about === null) return;
    own = JSON.stringify(typed);
    const {schema} = about;
    const values = typed ?? about.values;
    const only = {...schema, title: schema.title ?? "Context", description: undefined};
    field = fieldFor(only, schema, "Context", {required: true, value: values ?? undefined});
    place.replaceChildren(field.node);
    fault.say("");
    reset.hidden = typed === null;
  }

  function read() {
    try {
      const context = field?.read() ?? null;
      fault.say("");
      own = JSON.stringify(context);
      reset.hidden = false;
      store.set({context});
    } catch (error) {
      fault.say(error.message);
    }
  }

  place.addEventListener("input", read);
  place.addEventListener("click", (event) => {
    if (/** @type {HTMLElement} */ (event.target).matches("button")) read(); // adds or removes an item
  });
  return {
    node,
    /**
     * Show the context of the runner, or the typed one, which may come from another form.
     *
     * @param {About["context"]} context
     * @param {Values | null} typed
     */
    show(context, typed) {
      if (JSON.stringify(context) === shown && JSON.stringify(typed) === own) return;
      shown = JSON.stringify(context);
      about = context;
      node.hidden = context === null;
      build(typed);
    },
  };
}
