"""The live tree of a run that is watched: what is known of it, frames of it, where they are shown."""
