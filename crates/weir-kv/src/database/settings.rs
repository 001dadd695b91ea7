//! What is said of a database: plain data.

/// A table of Postgres.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresSettings {
    /// As libpq has it: `postgres://user:password@host/database`.
    pub url: String,
    /// Its name, with that of its schema perhaps. It is made when it is not there.
    pub table: String,
}

/// A table of Cassandra.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CassandraSettings {
    /// Some nodes of the cluster: hosts with ports.
    pub nodes: Vec<String>,
    /// The name of the keyspace, which must be there.
    pub keyspace: String,
    /// The name of the table. It is made when it is not there.
    pub table: String,
    /// Name and password.
    pub user: Option<(String, String)>,
}
