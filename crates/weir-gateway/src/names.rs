//! The addresses of servers that have names. They are looked up when a configuration brings a name, and again when the
//! TTL of the answer is over.
//!
//! The last good answer is kept until another one comes. So a name server that fails, does not answer, or no longer
//! knows the name takes nothing out of service. No worker asks this module, and no request waits for it.

mod lookup;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout_at;

use crate::lock::lock;
use crate::names::lookup::{Answer, Resolver};
use crate::settings::{Dns, Level, ServerAddress, Settings};
use crate::tell::tell;
use crate::time;

/// The shortest time between two look-ups of a name, whatever its TTL.
const TTL_MIN: Duration = Duration::from_secs(1);
/// The longest time: `/etc/hosts` has no TTLs, and a wrong record should not last a day.
const TTL_MAX: Duration = Duration::from_secs(300);
/// The wait after a useless answer, doubled for each one in a row, up to `RETRY_MAX`.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Configurations that may wait for their names at once.
const ORDERS_MAX: usize = 16;

/// The last good answer for each name.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known(HashMap<String, Vec<IpAddr>>);

impl Known {
    /// The addresses of a name, in order; none if it was never looked up.
    pub(crate) fn addresses(&self, host: &str) -> &[IpAddr] {
        self.0.get(host).map_or(&[], Vec::as_slice)
    }
}

/// A name without an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// As written in the config.
    pub host: String,
    /// Why it could not be resolved.
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
    /// Time since the last good answer.
    pub(crate) age: Duration,
    /// Time until the next look-up.
    pub(crate) next_in: Duration,
    /// Why the last answer was useless, if it was.
    pub(crate) error: Option<String>,
}

/// All names, and the thread that looks them up. The thread starts with the first name.
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

/// What to do when an address has changed.
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

/// Names to look up, and who waits for the result.
#[derive(Debug)]
struct Order {
    hosts: BTreeSet<String>,
    dns: Dns,
    done: oneshot::Sender<Vec<Unresolved>>,
}

impl Names {
    /// From now on, calls `on_change` whenever a name has other addresses than before.
    pub(crate) fn on_change(&self, on_change: impl Fn() + Send + Sync + 'static) {
        lock(&self.table).on_change = OnChange(Some(Arc::new(on_change)));
    }

    /// Looks up the names in `settings` that are unknown, and waits for that. So no lock may be held when it is
    /// called.
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
        // If nobody takes the order, nobody answers either.
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

    /// Whether all names in `settings` have an address.
    pub(crate) fn knows(&self, settings: &Settings) -> bool {
        let table = lock(&self.table);
        let hosts = names_of(settings);
        hosts.iter().all(|host| table.names.contains_key(host))
    }

    /// Keeps only the names in `settings` up to date.
    pub(crate) fn keep(&self, settings: &Settings) {
        let hosts = names_of(settings);
        let mut table = lock(&self.table);
        table.names.retain(|host, _| hosts.contains(host));
        table.dns = settings.dns.clone();
    }

    /// The addresses that are known now.
    pub(crate) fn known(&self) -> Known {
        let table = lock(&self.table);
        let names = table.names.iter();
        let known = names.map(|(host, name)| (host.clone(), name.addresses.clone()));
        Known(known.collect())
    }

    pub(crate) fn status(&self, host: &str) -> Option<NameStatus> {
        let table = lock(&self.table);
        let name = table.names.get(host)?;
        let now = time::now();
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

/// Starts the thread that asks name servers. It ends when the returned sender is dropped.
fn start(table: Arc<Mutex<Table>>) -> mpsc::Sender<Order> {
    let (orders, to_do) = mpsc::channel(ORDERS_MAX);
    let look_up = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(keep_up(to_do, &table)),
            Err(error) => tell(
                Level::Error,
                format_args!("names are not looked up: {error}"),
            ),
        }
    };
    let thread = std::thread::Builder::new()
        .name("names".to_owned())
        .spawn(look_up);
    if let Err(error) = thread {
        tell(
            Level::Error,
            format_args!("names are not looked up: {error}"),
        );
    }
    orders
}

/// Looks up ordered names and due names, until no more orders can come.
async fn keep_up(mut orders: mpsc::Receiver<Order>, shared: &Mutex<Table>) {
    loop {
        let due = lock(shared).names.values().map(|name| name.due).min();
        let order = match due {
            Some(due) => timeout_at(due.into(), orders.recv()).await,
            None => Ok(orders.recv().await),
        };
        match order {
            Ok(None) => return,
            Ok(Some(Order { hosts, dns, done })) => {
                let answers = look_up(hosts, &dns).await;
                let unresolved = lock(shared).learn(answers);
                // The caller may have ended.
                let _ = done.send(unresolved);
            }
            Err(_) => {
                let (hosts, dns) = lock(shared).due(time::now());
                let answers = look_up(hosts, &dns).await;
                let on_change = lock(shared).refresh(answers);
                if let Some(on_change) = on_change {
                    on_change();
                }
            }
        }
    }
}

/// Looks up all `hosts` at once.
async fn look_up(hosts: BTreeSet<String>, dns: &Dns) -> Vec<(String, Result<Answer, String>)> {
    // A new resolver sees changes of `/etc/resolv.conf` and `/etc/hosts`.
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

    /// Stores answers for new names, if all are good. Returns the names without an address.
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

    /// Stores answers for known names. Returns what to do if one of them has changed.
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
        let now = time::now();
        Self {
            addresses,
            answered: now,
            due: now + ttl.clamp(TTL_MIN, TTL_MAX),
            failures: 0,
            error: None,
        }
    }

    /// Stores an answer. Returns whether the addresses have changed.
    fn answered(&mut self, host: &str, answer: Answer) -> bool {
        if self.error.is_some() {
            tell(Level::Info, format_args!("{host} can be looked up again"));
        }
        let next = Self::new(answer);
        let has_changed = next.addresses != self.addresses;
        if has_changed {
            let (was, is) = (list(&self.addresses), list(&next.addresses));
            tell(
                Level::Info,
                format_args!("{host} is now {is}; it was {was}"),
            );
        }
        *self = next;
        has_changed
    }

    /// Stores a failure. It is reported once, until there is a good answer again.
    fn failed(&mut self, host: &str, reason: String) {
        if self.error.is_none() {
            let kept = list(&self.addresses);
            tell(
                Level::Warning,
                format_args!("{host} cannot be looked up, {kept} stays in use: {reason}"),
            );
        }
        let wait = RETRY_FIRST.saturating_mul(1 << self.failures.min(8));
        self.due = time::now() + wait.min(RETRY_MAX);
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
