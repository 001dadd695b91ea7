//! weir-http from the outside: the request smuggling corpus, the fuzzers' corpora, and random messages.

mod corpus;
mod random;
mod reader;
mod smuggling;
