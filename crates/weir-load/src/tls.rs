//! TLS with the server under load: the protocol of the plan is the only one that is offered.

pub use weir_socket::tls::{Client, Trust};

use weir_socket::tls::Error;

use crate::plan::Protocol;

/// TLS with the server `host`.
///
/// # Errors
/// A sentence: no authority could be read, or `host` is no name that a certificate could have.
pub fn client(host: &str, trust: &Trust, protocol: Protocol) -> Result<Client, String> {
    // A server that knows nothing of such offers speaks HTTP/1.1.
    let (offer, is_protocol_required) = match protocol {
        Protocol::Http1 { .. } => (&b"http/1.1"[..], false),
        Protocol::Http2 { .. } => (&b"h2"[..], true),
    };
    let client = Client::new(host, trust, &[offer]).map_err(|error| match error {
        Error::NobodyTrusted => {
            format!("{error}; name one with --ca or check nothing with --insecure")
        }
        error => error.to_string(),
    })?;
    Ok(Client {
        is_protocol_required,
        ..client
    })
}
