//! End to end: the real binary, real sockets, real peers.
//!
//! Each test starts what it needs on free ports of the loopback interface and stops it again. A component that cannot
//! start fails the test; nothing is skipped. Nothing here asserts how long something takes.

mod harness;

mod balance;
mod cache;
mod care;
mod clients;
mod collect;
mod compress;
mod defer;
mod demo;
mod documentation;
mod drain;
mod endpoints;
mod failover;
mod fallback;
mod guard;
mod http;
mod kv;
mod lab;
mod limits;
mod load;
mod loops;
mod memory;
mod observe;
mod reload;
mod routing;
mod service;
mod smuggling;
mod spreading;
mod streaming;
mod upgrade;
