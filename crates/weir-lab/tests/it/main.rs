//! What the laboratory writes, from files to files.

mod profile;
mod report;
