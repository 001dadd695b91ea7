//! What the gateway tells its operator: the access log, the metrics, and what is wrong with a config or a start.

mod access_log;
mod admin;
mod care;
mod crowd;
mod dashboard;
mod ids;
mod log_output;
mod messages;
mod packaged;
mod prometheus;
mod start;
mod stuck;

use crate::harness::origin::Origin;

fn answering() -> Origin {
    Origin::answering("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: x\r\n\r\nhello")
}
