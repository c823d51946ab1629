//! TLS of the server: certificate, key, and which clients are let in.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why TLS cannot be offered.
#[derive(Debug)]
pub enum TlsError {
    /// A file cannot be read or is not PEM of the wanted kind.
    File(PathBuf, String),
    /// The parts do not fit.
    Unfit(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File(path, error) => write!(f, "{}: {error}", path.display()),
            TlsError::Unfit(error) => write!(f, "TLS: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |error: &dyn fmt::Display| TlsError::File(path.to_path_buf(), error.to_string());
    let found = CertificateDer::pem_file_iter(path).map_err(|error| fail(&error))?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(|error| fail(&error))?;
    if found.is_empty() { Err(fail(&"holds no certificate in PEM form")) } else { Ok(found) }
}

/// TLS from PEM files. With `client_ca`, clients must show a certificate that it signed.
///
/// # Errors
/// See [`TlsError`].
pub fn tls_config(
    certificate: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let unfit = |error: &dyn fmt::Display| TlsError::Unfit(error.to_string());
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::File(key.to_path_buf(), error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(&error))?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(|error| unfit(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| unfit(&error))?)
        }
    };
    builder.with_single_cert(chain, key).map(Arc::new).map_err(|error| unfit(&error))
}
