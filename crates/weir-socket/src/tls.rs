//! TLS as a client speaks it: whom to trust, which protocols to offer, and the handshake.
//!
//! The protocols (ALPN, RFC 7301) are bytes here. What they mean is for who offers them.

mod session;
mod trust;

use std::fmt::{Display, Formatter};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig, OtherError};
use tokio_rustls::TlsConnector;

use crate::socket::Socket;
use crate::stream::Stream;

pub use session::Session;
pub use trust::Trust;

/// How TLS is spoken with one server.
#[derive(Debug, Clone)]
pub struct Client {
    /// Whom it trusts, and what it offers.
    pub config: Arc<ClientConfig>,
    /// Sent as SNI, and checked against the certificate.
    pub server_name: ServerName<'static>,
    /// Whether the server must agree to one of the protocols. Otherwise one that knows nothing of them will do.
    pub is_protocol_required: bool,
}

impl Client {
    /// A client of the server `host` that offers `protocols`, the preferred one first, and requires none of them.
    ///
    /// # Errors
    /// [`Error::ServerName`], and what is wrong with the authorities.
    pub fn new(host: &str, trust: &Trust, protocols: &[&[u8]]) -> Result<Self, Error> {
        let server_name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::ServerName(host.to_owned()))?;
        let provider = Arc::new(ring::default_provider());
        let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(Error::Versions)?;
        let mut config = trust.verifying(versions, provider)?.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(Self {
            config: Arc::new(config),
            server_name,
            is_protocol_required: false,
        })
    }

    /// Shakes hands. Whoever calls sets a deadline.
    ///
    /// # Errors
    /// [`Error::NoCommonProtocol`] and [`Error::Handshake`].
    pub async fn connect(&self, socket: Socket) -> Result<Stream, Error> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let stream = connector.connect(self.server_name.clone(), socket).await;
        let stream = stream.map_err(Error::of_handshake)?;
        if self.is_protocol_required && stream.get_ref().1.alpn_protocol().is_none() {
            return Err(Error::NoCommonProtocol);
        }
        Ok(Stream::Tls(Box::new(Session::new(stream))))
    }
}

/// Why no TLS can be spoken.
#[derive(Debug)]
pub enum Error {
    /// No certificate could have this name.
    ServerName(String),
    /// The cryptography that is built in allows none of its versions.
    Versions(rustls::Error),
    /// The certificates of authorities in this file cannot be read.
    Certificates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// This machine trusts no authority.
    NobodyTrusted,
    /// The server refused all protocols that were offered, or did not agree to the one that it must.
    NoCommonProtocol,
    /// The handshake failed, or the connection broke during it.
    Handshake(io::Error),
}

impl Error {
    /// A server that refuses all protocols says so with an alert.
    fn of_handshake(error: io::Error) -> Self {
        let refused = rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol);
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
        if cause == Some(&refused) {
            Self::NoCommonProtocol
        } else {
            Self::Handshake(error)
        }
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ServerName(host) => {
                write!(f, "{host:?} is no name that a certificate could have")
            }
            Self::Versions(error) => write!(f, "TLS cannot be spoken: {error}"),
            Self::Certificates { path, cause } => {
                let path = path.display();
                write!(f, "cannot read certificates from {path}: {cause}")
            }
            Self::NobodyTrusted => f.write_str("this machine trusts no certificate authority"),
            Self::NoCommonProtocol => {
                f.write_str("the server speaks none of the protocols that were offered")
            }
            Self::Handshake(error) => match said_plainly(error) {
                Some(words) => f.write_str(words),
                None => error.fmt(f),
            },
        }
    }
}

/// What the library names by its types, in words.
fn said_plainly(error: &io::Error) -> Option<&'static str> {
    let cause = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) = cause
    else {
        return None;
    };
    // The library keeps the type of this one to itself; its name is what it prints.
    format!("{cause:?}").contains("CaUsedAsEndEntity").then_some(
        "the server's certificate is an authority's, which no server may use as its own (RFC 5280 §4.2.1.9); give the server a \
         certificate that is signed by it",
    )
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests;
