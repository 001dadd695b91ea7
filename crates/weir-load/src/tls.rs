//! TLS as a client speaks it: whom to trust, and which protocol to ask for.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::plan::{Protocol, Tls};

/// Whose certificates are good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those of the authorities that this machine trusts.
    System,
    /// Those of the authorities in a PEM file.
    File(PathBuf),
    /// Anybody's.
    Anybody,
}

/// TLS with the server `host`.
///
/// # Errors
/// A sentence: no authority could be read, or `host` is no name that a certificate could have.
pub fn client(host: &str, trust: &Trust, protocol: Protocol) -> Result<Tls, String> {
    let server_name = ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is no name that a certificate could have"))?;
    let provider = Arc::new(ring::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be spoken: {error}"))?;
    let verified = match trust {
        Trust::Anybody => versions
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        Trust::System | Trust::File(_) => versions.with_root_certificates(roots(trust)?),
    };
    let mut config = verified.with_no_client_auth();
    config.alpn_protocols = vec![match protocol {
        Protocol::Http1 { .. } => b"http/1.1".to_vec(),
        Protocol::Http2 { .. } => b"h2".to_vec(),
    }];
    Ok(Tls {
        config: Arc::new(config),
        server_name,
    })
}

fn roots(trust: &Trust) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Trust::File(path) = trust {
        let cannot =
            |what: String| format!("cannot read certificates from {}: {what}", path.display());
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| cannot(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| cannot(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| cannot(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(cannot("it has none".to_owned()));
        }
    } else {
        // One that cannot be read is missed when a server needs it, and not before.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(
                "this machine trusts no certificate authority; name one with --ca or \
                        check nothing with --insecure"
                    .to_owned(),
            );
        }
    }
    Ok(roots)
}

/// Looks at no certificate. Signatures are still checked, so that the server is at least the one it says it is.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let schemes = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
