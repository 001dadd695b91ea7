//! What of a new configuration waits for a restart.
//!
//! Threads, the admin socket and storage are made once. What a file says of them stays as it is in a gateway that runs, and all
//! else is taken up. Where the one makes no sense without the other, nothing is.

use crate::settings::{AccessLog, Admin, CacheStorage, LogTarget, Settings, overlap};
use crate::start_error::StartError;

/// Puts into `next` what stays as it is in a gateway with the settings `current`, whose cache was opened as `storage`. Returns
/// the keys that wait for a restart.
///
/// # Errors
/// The rest of `next` makes no sense without such a key.
pub(super) fn hold_back(
    next: &mut Settings,
    current: &Settings,
    storage: Option<&CacheStorage>,
) -> Result<Vec<&'static str>, StartError> {
    let mut waiting = Vec::new();
    if next.workers != current.workers {
        next.workers = current.workers;
        waiting.push("server.workers");
    }
    admin(next, current, &mut waiting)?;
    access_log(next, current, &mut waiting);
    if let (Some(opened), Some(wanted)) = (storage, &mut next.cache) {
        let is_resized = wanted.memory_bytes != opened.memory_bytes;
        // Who says nothing of it gets what goes with the memory, and is told of the memory.
        let usual = CacheStorage::in_memory(wanted.memory_bytes).transient_bytes;
        let is_usual = is_resized && wanted.transient_bytes == usual;
        let is_held_otherwise = wanted.transient_bytes != opened.transient_bytes;
        for (key, is_other) in [
            ("cache.memory", is_resized),
            ("cache.transient", is_held_otherwise && !is_usual),
            ("cache.disk", wanted.disk != opened.disk),
        ] {
            if is_other {
                waiting.push(key);
            }
        }
        wanted.clone_from(opened);
    }
    Ok(waiting)
}

fn admin(
    next: &mut Settings,
    current: &Settings,
    waiting: &mut Vec<&'static str>,
) -> Result<(), StartError> {
    let before = waiting.len();
    match (&mut next.admin, &current.admin) {
        (Some(wanted), Some(kept)) => keep_socket(wanted, kept, waiting),
        (None, None) => {}
        (wanted, kept) => {
            wanted.clone_from(kept);
            waiting.push("admin");
        }
    }
    let waits_for = |key| waiting[before..].contains(&key);
    let Some(kept) = &next.admin else {
        // All routes were to be posted, and nobody takes them.
        return if next.routes.is_empty() {
            Err(StartError::NeedsRestart("admin"))
        } else {
            Ok(())
        };
    };
    if next.routes.is_empty() && kept.guard_file.is_none() {
        return Err(StartError::NeedsRestart("admin.guard_api"));
    }
    let mut listeners = next.listeners.iter();
    if (waits_for("admin") || waits_for("admin.listen"))
        && listeners.any(|listener| overlap(*listener, kept.listen))
    {
        return Err(StartError::NeedsRestart("admin.listen"));
    }
    Ok(())
}

/// Another token holds at once. But a socket that others can reach must not be without one because it stays.
fn keep_socket(wanted: &mut Admin, kept: &Admin, waiting: &mut Vec<&'static str>) {
    if wanted.listen != kept.listen {
        wanted.listen = kept.listen;
        waiting.push("admin.listen");
        if wanted.token.is_none() && !kept.listen.ip().to_canonical().is_loopback() {
            wanted.token.clone_from(&kept.token);
            waiting.push("admin.token");
        }
    }
    if wanted.guard_file != kept.guard_file {
        waiting.push(
            if wanted.guard_file.is_some() == kept.guard_file.is_some() {
                "admin.guard_file"
            } else {
                "admin.guard_api"
            },
        );
        wanted.guard_file.clone_from(&kept.guard_file);
    }
    if wanted.changes_file != kept.changes_file {
        wanted.changes_file.clone_from(&kept.changes_file);
        waiting.push("admin.changes_file");
    }
}

/// Lines may look otherwise and be written sooner at once. Where they go, and whether there are any, is settled at the start.
fn access_log(next: &mut Settings, current: &Settings, waiting: &mut Vec<&'static str>) {
    let (Some(wanted), Some(kept)) = (&mut next.access_log, &current.access_log) else {
        if next.access_log.is_some() != current.access_log.is_some() {
            next.access_log.clone_from(&current.access_log);
            waiting.push("access_log");
        }
        return;
    };
    if wanted.target != kept.target {
        let is_queue = |target: &LogTarget| matches!(target, LogTarget::Service(_));
        let both_queues = is_queue(&wanted.target) && is_queue(&kept.target);
        waiting.push(if both_queues {
            "access_log.queue"
        } else {
            "access_log.path"
        });
        // By default it goes by the target how long lines wait, so both change together.
        wanted.flush = kept.flush;
    }
    if wanted.buffer_bytes != kept.buffer_bytes {
        waiting.push("access_log.buffer");
    }
    let AccessLog {
        target,
        buffer_bytes,
        ..
    } = kept.clone();
    wanted.target = target;
    wanted.buffer_bytes = buffer_bytes;
}
