//! What the policies do together over time, in simulated time and from seeds.

mod impatient;
mod overload;
mod replicas;
mod space;
mod standing_out;
