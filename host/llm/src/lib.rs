//! The client of language models: it answers the completions that engines ask for.
