//! Active health checks: endpoints are asked whether they are well, whether or not there are requests for them.
//!
//! One thread of the process, with a task for each endpoint that is asked. It follows the configuration: a task goes on for
//! as long as the endpoint and what it is asked stay the same, over any number of reloads. What answers make of an
//! endpoint is decided in weir-policy; what that means for a request, in `choose.rs`, which reads one flag of
//! [`crate::state::health::Health`]. Nothing here touches a worker or its connections: every check opens one of its own.

mod probe;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until};
use weir_policy::health::check::Health;

use crate::settings::{HealthCheck, Level};
use crate::state::endpoint::EndpointState;
use crate::state::shared::Shared;
use crate::state::snapshot::{Endpoint, Snapshot, UpstreamState};
use crate::tell::tell;
use crate::time;
use crate::upstream::check::probe::{Answer, Probed};
use crate::upstream::relay::default_host;

/// Starts the thread. It ends when the gateway drains.
pub(crate) fn start(shared: Arc<Shared>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("checks".to_owned())
        .spawn(move || runtime.block_on(follow(&shared)))?;
    Ok(())
}

/// Has those endpoints asked that the configuration says, each time that there is another one.
async fn follow(shared: &Shared) {
    let mut configurations = shared.current.subscribe();
    let mut checks = Vec::new();
    while !shared.is_draining.load(Ordering::Relaxed) {
        let snapshot = Arc::clone(&configurations.borrow_and_update());
        checks = succeeding(checks, &snapshot);
        drop(snapshot);
        if configurations.changed().await.is_err() {
            return;
        }
    }
}

/// The tasks for `snapshot`: those of `before` go on whose subject is still the same.
fn succeeding(mut before: Vec<Check>, snapshot: &Snapshot) -> Vec<Check> {
    let mut checks = Vec::new();
    let mut added = Vec::new();
    for upstream in &snapshot.upstreams {
        let Some(rule) = &upstream.settings.care.health else {
            continue;
        };
        for endpoint in &upstream.endpoints {
            let subject = Subject::new(upstream, endpoint, rule);
            match before.iter().position(|check| check.subject == subject) {
                Some(known) => checks.push(before.swap_remove(known)),
                None => added.push(subject),
            }
        }
    }
    // An endpoint that is asked something else from now on forgets first what it said before.
    drop(before);
    checks.extend(added.into_iter().map(Check::begin));
    checks
}

/// An endpoint and what it is asked.
#[derive(Debug, Clone)]
struct Subject {
    state: Arc<EndpointState>,
    rule: HealthCheck,
    probed: Probed,
}

impl Subject {
    fn new(upstream: &UpstreamState, endpoint: &Endpoint, rule: &HealthCheck) -> Self {
        let server = &upstream.settings.servers[endpoint.server];
        Self {
            state: Arc::clone(&endpoint.state),
            rule: rule.clone(),
            probed: Probed {
                address: endpoint.address.clone(),
                host: String::from_utf8_lossy(default_host(server)).into_owned(),
            },
        }
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
            && self.rule == other.rule
            && self.probed == other.probed
    }
}

/// The task that checks one endpoint. Dropping it ends the task and forgets what it found.
#[derive(Debug)]
struct Check {
    subject: Subject,
    task: JoinHandle<()>,
}

impl Check {
    fn begin(subject: Subject) -> Self {
        let task = tokio::spawn(keep_asking(subject.clone()));
        Self { subject, task }
    }
}

impl Drop for Check {
    fn drop(&mut self) {
        // All tasks are on this thread, so it is not just doing something.
        self.task.abort();
        self.subject.state.checked.forget();
        self.subject.state.health.checked(true);
    }
}

async fn keep_asking(subject: Subject) {
    let Subject {
        state,
        rule,
        probed,
    } = subject;
    let mut random = fastrand::Rng::new();
    let mut health = Health::new();
    sleep(rule.check.first_wait(&mut random)).await;
    loop {
        let next = time::now() + rule.check.wait(&mut random);
        let how = match probed.ask(&rule).await {
            Answer::Good => Ok(()),
            Answer::Bad(reason) => Err(reason),
            // The gateway lacks something; that is not held against the endpoint.
            Answer::NotAsked => {
                sleep_until(next.into()).await;
                continue;
            }
        };
        if how.is_ok() {
            // It accepts connections, which is all that refusing ones can put in doubt.
            state.accepted();
        }
        if let Some(is_up) = health.on_check(&rule.check, how.is_ok()) {
            state.health.checked(is_up);
            match &how {
                Ok(()) => tell(Level::Info, format_args!("{} is up again", state.name)),
                Err(reason) => tell(
                    Level::Warning,
                    format_args!("{} is down: {reason}", state.name),
                ),
            }
        }
        state.checked.ended(how);
        sleep_until(next.into()).await;
    }
}
