//! Peers that others wrote: what they ask for through the gateway, they get.

use crate::harness::{App, Gateway};

mod browser;
mod curl;
mod load;
mod nginx;

/// Three replicas of the sample service behind a gateway.
struct Service {
    apps: [App; 3],
    gateway: Gateway,
}

impl Service {
    fn start() -> Self {
        let apps = [App::start("a"), App::start("b"), App::start("c")];
        let gateway = Gateway::to(&[0, 1, 2].map(|index: usize| apps[index].address));
        Self { apps, gateway }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.gateway.address)
    }

    /// Responses of `class` that each replica gave.
    fn responses(&self, class: &str) -> [u64; 3] {
        [0, 1, 2].map(|index: usize| {
            let endpoint = self.apps[index].address;
            self.gateway.metric(&format!(
                "weir_upstream_responses_total{{upstream=\"app\",endpoint=\"{endpoint}\",class=\"{class}\"}}"
            ))
        })
    }
}
