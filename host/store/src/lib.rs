//! Keeps conversations: every message as it came, the views a model saw of them, summaries, receipts, engine state.
