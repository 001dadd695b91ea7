//! The addresses of the names that servers have: looked up when a configuration brings a name, and again when the time
//! is over for which a name server vouched for the answer.
//!
//! The last good answer is kept for as long as no other one comes: a name server that fails, does not answer, or knows
//! the name no longer takes nothing out of service. Nothing here is asked by a worker, and no request waits for it.

mod lookup;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::lock::lock;
use crate::names::lookup::{Answer, Resolver};
use crate::settings::{Dns, ServerAddress, Settings};
use crate::tell::tell;

/// A name is not asked for again before this long, whatever its TTL.
const TTL_MIN: Duration = Duration::from_secs(1);
/// And at the latest after so long: what is in `/etc/hosts` has no TTL, and a wrong record should not last a day.
const TTL_MAX: Duration = Duration::from_secs(300);
/// After an answer that is of no use: this long, doubled for each one in a row, up to `RETRY_MAX`.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Configurations that wait for their names at once.
const ORDERS_MAX: usize = 16;

/// The last good answer for each name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(HashMap<String, Vec<IpAddr>>);

impl Known {
    /// The addresses of a name, in order; none when it was never looked up.
    pub(crate) fn addresses(&self, host: &str) -> &[IpAddr] {
        self.0.get(host).map_or(&[], Vec::as_slice)
    }
}

/// A name without an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// As written in the config.
    pub host: String,
    /// What kept it from being resolved.
    pub reason: String,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, reason } = self;
        write!(
            f,
            "expected a host name that resolves, but looking up \"{host}\" failed: {reason}"
        )
    }
}

/// What is known of a name, for the admin listener.
#[derive(Debug, Clone)]
pub(crate) struct NameStatus {
    /// Since the last good answer.
    pub(crate) age: Duration,
    /// Until it is asked for again.
    pub(crate) next_in: Duration,
    /// Why the last answer was of no use, if it was not.
    pub(crate) error: Option<String>,
}

/// All names, and the thread that looks them up, which begins with the first name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    table: Arc<Mutex<Table>>,
    orders: OnceLock<mpsc::Sender<Order>>,
}

#[derive(Debug, Default)]
struct Table {
    names: HashMap<String, Name>,
    dns: Dns,
    on_change: OnChange,
}

/// What is done when an address changed.
#[derive(Default)]
struct OnChange(Option<Arc<dyn Fn() + Send + Sync>>);

#[derive(Debug)]
struct Name {
    addresses: Vec<IpAddr>,
    answered: Instant,
    due: Instant,
    failures: u32,
    error: Option<String>,
}

/// Names to look up, and who waits for them.
#[derive(Debug)]
struct Order {
    hosts: BTreeSet<String>,
    dns: Dns,
    done: oneshot::Sender<Vec<Unresolved>>,
}

impl Names {
    /// Calls `on_change` from now on whenever a name has other addresses than before.
    pub(crate) fn on_change(&self, on_change: impl Fn() + Send + Sync + 'static) {
        lock(&self.table).on_change = OnChange(Some(Arc::new(on_change)));
    }

    /// Looks up what `settings` names and is not known yet. Waits for it, so it must not be called with a lock held.
    pub(crate) fn learn(&self, settings: &Settings) -> Result<(), Vec<Unresolved>> {
        let known = self.known();
        let mut hosts = names_of(settings);
        hosts.retain(|host| known.addresses(host).is_empty());
        if hosts.is_empty() {
            return Ok(());
        }
        let (done, answer) = oneshot::channel();
        let order = Order {
            hosts: hosts.clone(),
            dns: settings.dns.clone(),
            done,
        };
        let orders = self.orders.get_or_init(|| start(Arc::clone(&self.table)));
        // When there is nobody to take it, nobody answers either.
        let _ = orders.blocking_send(order);
        let unresolved = answer.blocking_recv().unwrap_or_else(|_| {
            let reason = "the thread that looks up names has ended".to_owned();
            let unresolved = hosts.into_iter().map(|host| Unresolved {
                host,
                reason: reason.clone(),
            });
            unresolved.collect()
        });
        if unresolved.is_empty() {
            Ok(())
        } else {
            Err(unresolved)
        }
    }

    /// Whether all that `settings` names has an address.
    pub(crate) fn knows(&self, settings: &Settings) -> bool {
        let table = lock(&self.table);
        let hosts = names_of(settings);
        hosts.iter().all(|host| table.names.contains_key(host))
    }

    /// Keeps up what `settings` names, and nothing else.
    pub(crate) fn keep(&self, settings: &Settings) {
        let hosts = names_of(settings);
        let mut table = lock(&self.table);
        table.names.retain(|host, _| hosts.contains(host));
        table.dns = settings.dns.clone();
    }

    /// All that is known now.
    pub(crate) fn known(&self) -> Known {
        let table = lock(&self.table);
        let names = table.names.iter();
        let known = names.map(|(host, name)| (host.clone(), name.addresses.clone()));
        Known(known.collect())
    }

    pub(crate) fn status(&self, host: &str) -> Option<NameStatus> {
        let table = lock(&self.table);
        let name = table.names.get(host)?;
        let now = Instant::now();
        Some(NameStatus {
            age: now.saturating_duration_since(name.answered),
            next_in: name.due.saturating_duration_since(now),
            error: name.error.clone(),
        })
    }
}

fn names_of(settings: &Settings) -> BTreeSet<String> {
    let servers = settings.upstreams.iter().flat_map(|up| &up.servers);
    let names = servers.filter_map(|server| match &server.address {
        ServerAddress::Name(host, _) => Some(host.clone()),
        ServerAddress::Known(_) => None,
    });
    names.collect()
}

/// Starts the thread that asks name servers. It ends with the sender that this returns.
fn start(table: Arc<Mutex<Table>>) -> mpsc::Sender<Order> {
    let (orders, to_do) = mpsc::channel(ORDERS_MAX);
    let look_up = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(keep_up(to_do, &table)),
            Err(error) => tell(format_args!("names are not looked up: {error}")),
        }
    };
    let thread = std::thread::Builder::new()
        .name("names".to_owned())
        .spawn(look_up);
    if let Err(error) = thread {
        tell(format_args!("names are not looked up: {error}"));
    }
    orders
}

/// Looks up what is ordered, and what is due, until nobody can order any more.
async fn keep_up(mut orders: mpsc::Receiver<Order>, shared: &Mutex<Table>) {
    loop {
        let due = lock(shared).names.values().map(|name| name.due).min();
        let order = match due {
            Some(due) => timeout_at(due, orders.recv()).await,
            None => Ok(orders.recv().await),
        };
        match order {
            Ok(None) => return,
            Ok(Some(Order { hosts, dns, done })) => {
                let answers = look_up(hosts, &dns).await;
                let unresolved = lock(shared).learn(answers);
                // Whoever ordered may have ended.
                let _ = done.send(unresolved);
            }
            Err(_) => {
                let (hosts, dns) = lock(shared).due(Instant::now());
                let answers = look_up(hosts, &dns).await;
                let on_change = lock(shared).refresh(answers);
                if let Some(on_change) = on_change {
                    on_change();
                }
            }
        }
    }
}

/// Asks for all of `hosts` at once.
async fn look_up(hosts: BTreeSet<String>, dns: &Dns) -> Vec<(String, Result<Answer, String>)> {
    // Made anew, so that changes of `/etc/resolv.conf` and `/etc/hosts` are seen.
    let resolver = Arc::new(Resolver::new(dns));
    let mut lookups = JoinSet::new();
    for host in hosts {
        let resolver = Arc::clone(&resolver);
        lookups.spawn(async move {
            let answer = resolver.look_up(&host).await;
            (host, answer)
        });
    }
    lookups.join_all().await
}

impl Table {
    fn due(&self, now: Instant) -> (BTreeSet<String>, Dns) {
        let due = self.names.iter().filter(|(_, name)| name.due <= now);
        let hosts = due.map(|(host, _)| host.clone()).collect();
        (hosts, self.dns.clone())
    }

    /// Takes answers for names that were not known, if all are good; what is left are those without an address.
    fn learn(&mut self, answers: Vec<(String, Result<Answer, String>)>) -> Vec<Unresolved> {
        let mut unresolved = Vec::new();
        let mut learnt = Vec::new();
        for (host, answer) in answers {
            match answer {
                Ok(answer) => learnt.push((host, Name::new(answer))),
                Err(reason) => unresolved.push(Unresolved { host, reason }),
            }
        }
        if unresolved.is_empty() {
            self.names.extend(learnt);
        }
        unresolved.sort_by(|one, other| one.host.cmp(&other.host));
        unresolved
    }

    /// Takes answers for names that were known; what is to be done when one of them has changed.
    fn refresh(
        &mut self,
        answers: Vec<(String, Result<Answer, String>)>,
    ) -> Option<Arc<dyn Fn() + Send + Sync>> {
        let mut has_changed = false;
        for (host, answer) in answers {
            // The name may be in no configuration any more.
            let Some(name) = self.names.get_mut(&host) else {
                continue;
            };
            match answer {
                Ok(answer) => has_changed |= name.answered(&host, answer),
                Err(reason) => name.failed(&host, reason),
            }
        }
        let on_change = self.on_change.0.as_ref();
        on_change.filter(|_| has_changed).map(Arc::clone)
    }
}

impl Name {
    fn new(Answer { addresses, ttl }: Answer) -> Self {
        let now = Instant::now();
        Self {
            addresses,
            answered: now,
            due: now + ttl.clamp(TTL_MIN, TTL_MAX),
            failures: 0,
            error: None,
        }
    }

    /// Whether it says something else than before.
    fn answered(&mut self, host: &str, answer: Answer) -> bool {
        if self.error.is_some() {
            tell(format_args!("{host} can be looked up again"));
        }
        let next = Self::new(answer);
        let has_changed = next.addresses != self.addresses;
        if has_changed {
            let (was, is) = (list(&self.addresses), list(&next.addresses));
            tell(format_args!("{host} is now {is}; it was {was}"));
        }
        *self = next;
        has_changed
    }

    /// Said once, until there is a good answer again.
    fn failed(&mut self, host: &str, reason: String) {
        if self.error.is_none() {
            let kept = list(&self.addresses);
            tell(format_args!(
                "{host} cannot be looked up, {kept} stays in use: {reason}"
            ));
        }
        let wait = RETRY_FIRST.saturating_mul(1 << self.failures.min(8));
        self.due = Instant::now() + wait.min(RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        self.error = Some(reason);
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    addresses.join(", ")
}

impl fmt::Debug for OnChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnChange")
    }
}
