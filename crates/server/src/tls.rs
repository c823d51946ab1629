//! TLS of the server: certificate, key, and which clients may connect.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Why TLS cannot be offered.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM of the right kind.
    #[error("{0}: {why}", why = pem_words(.1))]
    File(PathBuf, pem::Error),
    /// The certificate, key or authority cannot be used, or they do not belong together.
    #[error("TLS: {0}")]
    Unfit(rustls::Error),
    /// The authority's certificate cannot verify clients.
    #[error("TLS: {0}")]
    Authority(rustls::server::VerifierBuilderError),
}

fn pem_words(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => "has no certificate or key in PEM form".to_string(),
        error => error.to_string(),
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let fail = |error| TlsError::File(path.to_path_buf(), error);
    let found = CertificateDer::pem_file_iter(path).map_err(fail)?;
    let found: Vec<_> = found.collect::<Result<_, _>>().map_err(fail)?;
    if found.is_empty() { Err(fail(pem::Error::NoItemsFound)) } else { Ok(found) }
}

/// TLS from PEM files. With `client_ca`, clients must show a certificate that this authority
/// signed.
pub fn tls_config(
    certificate: &Path,
    key: &Path,
    client_ca: Option<&Path>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let chain = certificates(certificate)?;
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|error| TlsError::File(key.to_path_buf(), error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Unfit)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(TlsError::Unfit)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(TlsError::Authority)?)
        }
    };
    builder.with_single_cert(chain, key).map(Arc::new).map_err(TlsError::Unfit)
}
