//! weir-cache from the outside: whole exchanges through a gateway in miniature, the fuzzers' corpora, random input; and the
//! stores.

mod authority;
#[path = "../../../../fuzz/checks/cache_head.rs"]
mod cache_head;
mod corpus;
mod miniature;
mod random;
mod scenarios;
mod store;
