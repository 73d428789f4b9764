//! Finds messages and summaries by text: a word index, a trigram index, and the ranking over both.
