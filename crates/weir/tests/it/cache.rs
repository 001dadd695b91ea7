//! The cache: what is answered without the origin, who asks it, and what others get meanwhile.

mod disk;
mod fills;
mod purge;
mod stored;

use std::net::SocketAddr;

use crate::harness::Gateway;

/// A gateway in front of `origin` whose one route caches with `cache`.
fn caching(origin: SocketAddr, cache: &str) -> Gateway {
    Gateway::start(&format!(
        "[upstream.app]\nservers = [\"{origin}\"]\n[[route]]\npath = \"/{{*rest}}\"\nupstream = \"app\"\ncache = {cache}\n"
    ))
}
