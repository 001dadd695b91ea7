//! A file that is read again beside the changes that operators have made meanwhile.
//!
//! Both have changed the servers that the file listed before, so it is a three-way merge, server by server: what the file
//! says of a server now that it did not say before holds, and of what it says no differently the change holds. It says nothing of
//! draining, so a server that it still lists stays drained until somebody ends that.

use crate::changes::Changes;
use crate::settings::Server;

/// The servers that operators have changed: `was` the list of the file then, `is` what they have made of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edited<'s> {
    pub(super) was: &'s [Server],
    pub(super) is: &'s [Server],
}

impl Edited<'_> {
    /// Puts the changes into `servers`, which the file lists now, and says what has become of them. Where no server would be left,
    /// those of the file are: an upstream has one.
    pub(super) fn merge_into(self, servers: &mut Vec<Server>) -> String {
        const CHANGES: &str = "changes made through the admin listener";
        let file = servers.clone();
        let listed = file.iter();
        let mut merged: Vec<Server> = listed.filter_map(|now| self.of_listed(now)).collect();
        merged.extend(self.added(&file).cloned());
        if !merged.is_empty() {
            *servers = merged;
        }
        if file == self.was {
            return format!("{CHANGES} are kept");
        }
        let left = Changes::in_servers(&file, servers);
        if left.is_empty() {
            return format!("{CHANGES} are gone, since the file lists other servers");
        }
        format!("of the {CHANGES} are kept: {}", left.join("; "))
    }

    /// What holds of a server that the file lists as `now`; `None` when somebody has removed it.
    fn of_listed(self, now: &Server) -> Option<Server> {
        let (was, is) = (find(self.was, now), find(self.is, now));
        let is_said_again = was.is_some_and(|was| was.weight == now.weight);
        let Some(is) = is else {
            return (!is_said_again).then(|| now.clone());
        };
        Some(Server {
            weight: if is_said_again { is.weight } else { now.weight },
            is_draining: is.is_draining,
            ..now.clone()
        })
    }

    /// The servers that only operators know.
    fn added<'s>(&'s self, file: &'s [Server]) -> impl Iterator<Item = &'s Server> {
        let added = self.is.iter();
        added.filter(|server| find(self.was, server).is_none() && find(file, server).is_none())
    }
}

fn find<'s>(servers: &'s [Server], server: &Server) -> Option<&'s Server> {
    servers.iter().find(|other| other.address == server.address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ServerAddress;

    /// `a5` is server `a` with weight 5, `a5-` the same drained.
    fn servers(text: &str) -> Vec<Server> {
        let server = |word: &str| {
            let is_draining = word.ends_with('-');
            let weight = word[1..].trim_end_matches('-');
            Server {
                label: word[..1].to_owned(),
                address: ServerAddress::Name(word[..1].to_owned(), 80),
                weight: weight.parse().expect("a weight"),
                is_draining,
            }
        };
        text.split_whitespace().map(server).collect()
    }

    #[test]
    fn what_the_file_does_not_change_stays_as_operators_left_it() {
        for (was, is, now, merged, told) in [
            // The file says what it said.
            ("a1 b1", "a1- b1", "a1 b1", "a1- b1", "are kept"),
            // It lists another server: what was drained stays so, and what was added.
            (
                "a1 b1",
                "a1- b1",
                "a1 b1 c1",
                "a1- b1 c1",
                "kept: server a is drained",
            ),
            ("a1", "a1 x3", "a1 b1", "a1 b1 x3", "kept: server x added"),
            (
                "a1 b1",
                "a7 b1",
                "a1 b1 c1",
                "a7 b1 c1",
                "kept: server a has weight 7, it had 1",
            ),
            ("a1 b1", "b1", "a1 b1 c1", "b1 c1", "kept: server a removed"),
            // It says something else of the changed server.
            ("a1 b1", "a7 b1", "a2 b1", "a2 b1", "are gone"),
            ("a1 b1", "b1", "a2 b1", "a2 b1", "are gone"),
            (
                "a1 b1",
                "a7- b1",
                "a2 b1",
                "a2- b1",
                "kept: server a is drained",
            ),
            // It has what was added, or nothing of what was changed.
            ("a1", "a1 x3", "a1 x2", "a1 x2", "are gone"),
            (
                "a1",
                "a1 x3-",
                "a1 x2",
                "a1 x2-",
                "kept: server x is drained",
            ),
            ("a1 b1", "a1- b1", "b1 c1", "b1 c1", "are gone"),
            // Nobody would be left.
            ("a1 b1", "b1", "a1", "a1", "are gone"),
        ] {
            let (before, after) = (servers(was), servers(is));
            let edited = Edited {
                was: &before,
                is: &after,
            };
            let mut file = servers(now);
            let note = edited.merge_into(&mut file);
            let case = format!("{was} | {is} | {now}");
            assert_eq!(file, servers(merged), "{case}");
            assert!(note.contains(told), "{case}: {note}");
        }
    }
}
