//! Logs on disks that crash, that are full, and that are real.

mod corpus;
mod crashing;
mod damage;
mod directory;
mod images;
mod reading;
