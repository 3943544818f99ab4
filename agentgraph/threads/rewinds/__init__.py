"""Going back: new lines of a thread, copies and variants."""
