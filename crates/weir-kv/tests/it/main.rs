//! What nodes tell each other, from outside.

mod corpus;
