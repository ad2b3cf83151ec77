//! From PEM files to what rustls serves with.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, version};

use super::{ClientAuth, TlsOptions};

/// Reads the files and makes a configuration of them.
pub(super) fn load(options: &TlsOptions) -> io::Result<Arc<ServerConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key_file = options.key_file.as_ref().unwrap_or(&options.cert_file);
    let chain = certificates(&options.cert_file)?;
    let key = private_key(key_file)?;
    let versions: &[_] =
        if options.only_tls13 { &[&version::TLS13] } else { &[&version::TLS13, &version::TLS12] };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(|error| wrong(&options.cert_file, error))?;
    let builder = match (options.client_auth, &options.ca_file) {
        (ClientAuth::No, _) => builder.with_no_client_auth(),
        (_, None) => {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "clients are to show certificates, but no file says who vouches for them: name a CA file, or ask for none",
            ));
        }
        (auth, Some(ca_file)) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(ca_file)? {
                roots.add(certificate).map_err(|error| wrong(ca_file, error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier =
                if auth == ClientAuth::Optional { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(ca_file, error))?)
        }
    };
    let config = builder.with_single_cert(chain, key).map_err(|error| {
        let key_file = key_file.display();
        let why = match error {
            rustls::Error::InconsistentKeys(_) => format!("is not the certificate of the key in {key_file}"),
            error => format!("with the key in {key_file}: {error}"),
        };
        wrong(&options.cert_file, why)
    })?;
    Ok(Arc::new(config))
}

/// A key as OpenSSL takes it: what stands in it counts, not what its label says.
fn private_key(file: &Path) -> io::Result<PrivateKeyDer<'static>> {
    let text = std::fs::read(file).map_err(|error| pem_error(file, "private key", PemError::Io(error)))?;
    // As a label of its own, or in a line below the old ones'.
    let is_encrypted = [&b"-----BEGIN ENCRYPTED PRIVATE KEY"[..], b"Proc-Type: 4,ENCRYPTED"]
        .iter()
        .any(|mark| text.windows(mark.len()).any(|part| part == *mark));
    let key = PrivateKeyDer::from_pem_slice(&text).map_err(|error| match is_encrypted {
        true => wrong(
            file,
            "the key is encrypted, and nobody could be asked for its password at a start: give one without, in a file that \
             the server alone may read, as openssl pkey -in FILE -out OTHER writes it",
        ),
        false => pem_error(file, "private key", error),
    })?;
    let bytes = key.secret_der().to_vec();
    let kinds = [
        PrivateKeyDer::Pkcs8(bytes.clone().into()),
        PrivateKeyDer::Pkcs1(bytes.clone().into()),
        PrivateKeyDer::Sec1(bytes.into()),
    ];
    let is_one = |key: &PrivateKeyDer<'_>| rustls::crypto::ring::sign::any_supported_type(key).is_ok();
    let found = std::iter::once(key.clone_key()).chain(kinds).find(is_one);
    Ok(found.unwrap_or(key))
}

fn certificates(file: &Path) -> io::Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(pem_error(file, "certificate", PemError::NoItemsFound)),
        found => found.map_err(|error| pem_error(file, "certificate", error)),
    }
}

fn pem_error(file: &Path, what: &str, error: PemError) -> io::Error {
    match error {
        PemError::Io(error) => {
            io::Error::new(error.kind(), format!("can't read the {what} in {}: {error}", file.display()))
        }
        PemError::NoItemsFound => wrong(file, format!("holds no {what} in PEM")),
        error => wrong(file, error),
    }
}

fn wrong(file: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{}: {why}", file.display()))
}
